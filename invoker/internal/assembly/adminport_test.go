package assembly

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"software.sslmate.com/src/go-pkcs12"
)

// TestWellKnownLoginIsWarnedOf where other hosts reach the admin port.
func TestWellKnownLoginIsWarnedOf(t *testing.T) {
	const known = "invoker.pass"
	for _, c := range []struct {
		host, password string
		warned         bool
	}{
		{"", known, true}, {"127.0.0.1", known, false}, {"", "of their own", false}, {"", "", false},
	} {
		log := &bytes.Buffer{}
		a := newAssembly(Options{Config: &config.Config{}, Host: c.host, Log: slog.New(slog.NewTextHandler(log, nil))})
		a.c.Admin = config.Admin{Username: "invoker.user", Password: c.password}
		stop, err := a.port.open(t.Context())
		check.NoError(t, err)
		stop()
		s, err := a.overview.status(t.Context())
		check.NoError(t, err)
		if logged := strings.Contains(log.String(), "level=WARN"); logged != c.warned {
			t.Errorf("host %q, password %q: logged %t, want %t", c.host, c.password, logged, c.warned)
		}
		if listed := len(s.Warnings) == 1; listed != c.warned {
			t.Errorf("host %q, password %q: /status has %q", c.host, c.password, s.Warnings)
		}
	}
}

// TestExpiredCertificateIsWarnedOf in the log and on /status; the port is served, because
// probes of OpenWhisk's role do not check it.
func TestExpiredCertificateIsWarnedOf(t *testing.T) {
	for name, c := range map[string]struct {
		until time.Duration
		text  string
	}{
		"valid": {90 * 24 * time.Hour, ""}, "ends soon": {time.Hour, "expires on"}, "expired": {-time.Hour, "expired on"},
	} {
		key, certificate := peertest.Certificate(t, time.Now().Add(-2*time.Hour), time.Now().Add(c.until))
		data, err := pkcs12.Modern.Encode(key, certificate, nil, "pass")
		check.NoError(t, err)
		store := filepath.Join(t.TempDir(), "own.p12")
		check.NoError(t, os.WriteFile(store, data, 0o600))
		log := &bytes.Buffer{}
		a := newAssembly(Options{Config: &config.Config{}, Host: "127.0.0.1", Log: slog.New(slog.NewTextHandler(log, nil))})
		a.c.Admin = config.Admin{Protocol: "https", TLS: config.AdminTLS{KeystorePath: store, KeystorePassword: "pass"}}
		stop, err := a.port.open(t.Context())
		check.NoError(t, err)
		stop()
		s, err := a.overview.status(t.Context())
		check.NoError(t, err)
		check.Contains(t, strings.Join(s.Warnings, ""), c.text, "%s", name)
		check.Contains(t, log.String(), c.text, "%s", name)
		if c.text == "" {
			check.Equal(t, len(s.Warnings), 0, "%s: %q", name, s.Warnings)
		}
	}
}
