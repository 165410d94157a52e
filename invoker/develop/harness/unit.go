package harness

import (
	"os"
	"strings"
	"testing"
)

// UnitEnvironment is what the shipped systemd unit, and the image, set.
func UnitEnvironment(t testing.TB) (environ []string) {
	t.Helper()
	unit, err := os.ReadFile("../../package/files/gpuwhisk@.service")
	for line := range strings.Lines(string(unit)) {
		if value, ok := strings.CutPrefix(line, "Environment="); ok {
			environ = append(environ, strings.TrimSpace(value))
		}
	}
	if err != nil || len(environ) == 0 {
		t.Fatalf("no Environment= in the unit: %v", err)
	}
	return environ
}
