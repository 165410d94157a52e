package prettyjson

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestWrite(t *testing.T) {
	var out strings.Builder
	check.NoError(t, Write(&out, map[string]string{"why": "1 < 2 & 3 > 2"}))
	check.Equal(t, out.String(), "{\n  \"why\": \"1 < 2 & 3 > 2\"\n}\n")
	if err := Write(&out, func() {}); err == nil {
		t.Error("a value without a JSON form is no error")
	}
}
