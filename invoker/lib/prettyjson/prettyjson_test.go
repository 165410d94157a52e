package prettyjson

import (
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	var out strings.Builder
	err := Write(&out, map[string]string{"why": "1 < 2 & 3 > 2"})
	if want := "{\n  \"why\": \"1 < 2 & 3 > 2\"\n}\n"; out.String() != want || err != nil {
		t.Errorf("got %q, %v; want %q", out.String(), err, want)
	}
	if err := Write(&out, func() {}); err == nil {
		t.Error("what has no JSON is no error")
	}
}
