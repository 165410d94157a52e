package assembly

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestWellKnownLoginIsWarnedOf where other hosts reach the admin port.
func TestWellKnownLoginIsWarnedOf(t *testing.T) {
	const known = "invoker.user"
	for _, c := range []struct {
		host, user string
		warned     bool
	}{
		{"", known, true}, {"127.0.0.1", known, false}, {"", "operator", false},
	} {
		log := &bytes.Buffer{}
		a := &assembly{Options: Options{Host: c.host, Log: slog.New(slog.NewTextHandler(log, nil))}, c: &config.Config{}, closing: make(chan struct{})}
		a.intake = classic{a}
		a.c.Admin = config.Admin{Username: c.user, Password: "invoker.pass"}
		stop, err := a.openListener(t.Context())
		check.NoError(t, err)
		stop()
		s, err := a.status(t.Context())
		check.NoError(t, err)
		if logged := strings.Contains(log.String(), "whisk.invoker.password"); logged != c.warned {
			t.Errorf("host %q, user %s: logged %t, want %t", c.host, c.user, logged, c.warned)
		}
		if listed := len(s.Warnings) == 1; listed != c.warned {
			t.Errorf("host %q, user %s: /status has %q", c.host, c.user, s.Warnings)
		}
	}
}
