package harness

import (
	"os"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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
	check.NoError(t, err)
	check.Greater(check.Must(t), len(environ), 0, "no Environment= in the unit")
	return environ
}
