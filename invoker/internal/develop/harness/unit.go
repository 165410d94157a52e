package harness

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// UnitEnvironment returns the environment that the shipped systemd unit, and the
// image, set.
func UnitEnvironment(t testing.TB) (environ []string) {
	t.Helper()
	for line := range strings.Lines(string(Read(t, "../../../package/files/gpuwhisk@.service"))) {
		if value, ok := strings.CutPrefix(line, "Environment="); ok {
			environ = append(environ, strings.TrimSpace(value))
		}
	}
	check.Greater(check.Must(t), len(environ), 0, "no Environment= in the unit")
	return environ
}
