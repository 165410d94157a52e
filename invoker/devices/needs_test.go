package devices

import (
	"path/filepath"
	"regexp"
	"testing"
)

// TestNeeds: a library says which C library it takes; what is none has no word.
func TestNeeds(t *testing.T) {
	b := open(t, nil)
	got, err := Needs(b.options.Library)
	if err != nil || !regexp.MustCompile(`^2\.\d+$`).MatchString(got) {
		t.Errorf("%q, %v, want a version of glibc", got, err)
	}
	for version, newer := range map[string]bool{"2.34": true, "2.18": true, "3.0": true, Everywhere: false, "2.4": false, "": false} {
		if Newer(version) != newer {
			t.Errorf("%q is newer than %s: %t", version, Everywhere, !newer)
		}
	}
	if _, err := Needs(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there has needs")
	}
}
