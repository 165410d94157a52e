package handover

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestSplitAction(t *testing.T) {
	for action, want := range map[string][2]string{
		"guest/f": {"guest", "f"}, "/guest/f": {"guest", "f"}, "guest/p/f": {"guest/p", "f"}, "/guest/p/f": {"guest/p", "f"},
		"f": {}, "/f": {}, "": {}, "guest/": {}, "a/b/c/d": {},
	} {
		path, name, err := splitAction(action)
		check.Equal(t, path, want[0], "%q", action)
		check.Equal(t, name, want[1], "%q", action)
		check.Equal(t, err == nil, want[1] != "", "%q: %v", action, err)
	}
}
