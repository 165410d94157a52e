package handover

import "testing"

func TestSplitAction(t *testing.T) {
	for action, want := range map[string][2]string{
		"guest/f": {"guest", "f"}, "/guest/f": {"guest", "f"}, "guest/p/f": {"guest/p", "f"}, "/guest/p/f": {"guest/p", "f"},
		"f": {}, "/f": {}, "": {}, "guest/": {}, "a/b/c/d": {},
	} {
		path, name, err := SplitAction(action)
		if path != want[0] || name != want[1] || (err == nil) != (want[1] != "") {
			t.Errorf("%q: %q, %q, %v", action, path, name, err)
		}
	}
}
