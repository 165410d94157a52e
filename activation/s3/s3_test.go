package s3

import (
	"bytes"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestRead: what a controller keeps is found under its key, byte for byte.
func TestRead(t *testing.T) {
	t.Parallel()
	cfg := startServer(t)
	code := bytes.Repeat([]byte{0, 1, 0xff, '\n'}, 300_000)
	const name = "9f1c7f0e-8d0a-4f7e-9c39-0a3c4c1f6a11"
	for _, prefix := range []string{"", "dev/openwhisk"} {
		cfg.Prefix = prefix
		s := open(t, cfg)
		at := "whiskentity/guest/tools/hello/" + name
		if prefix != "" {
			at = prefix + "/" + at
		}
		keep(t, s, at, code)
		got, found, err := s.Read(t.Context(), "guest/tools/hello", name)
		if err != nil || !found || !bytes.Equal(got, code) {
			t.Errorf("prefix %q: %d bytes, %t, %v", prefix, len(got), found, err)
		}
		if got, found, err := s.Read(t.Context(), "guest/tools/hello", "other"); got != nil || found || err != nil {
			t.Errorf("what is not there: %d bytes, %t, %v", len(got), found, err)
		}
		if err := s.Probe(t.Context()); err != nil {
			t.Errorf("probe: %v", err)
		}
		if _, _, err := s.read(t.Context(), at, 1000); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("an object above the limit: %v", err)
		}
	}
}

// TestReadReportsWhatIsWrong, and which setting to check; and never a secret.
func TestReadReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	cfg := startServer(t)
	keep(t, open(t, cfg), "whiskentity/guest/hello/x", []byte("code"))
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>The request signature does not match</Message></Error>`)
	}))
	t.Cleanup(refuses.Close)
	for want, c := range map[string]struct {
		key    string
		change func(*Config)
	}{
		"Access Key":     {"aws.credentials", func(c *Config) { c.AccessKey = "somebody" }},
		"signature":      {"aws.credentials", func(c *Config) { c.Endpoint, c.Region = refuses.URL, "us-east-1" }},
		"does not exist": {"whisk.s3.bucket", func(c *Config) { c.Bucket = "another-bucket" }},
		"refused":        {"endpoint-url", func(c *Config) { c.Endpoint = "http://127.0.0.1:1" }},
	} {
		wrong := cfg
		wrong.SecretKey = "not the secret" // which s3rver does not find out
		c.change(&wrong)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, found, err := open(t, wrong).Read(ctx, "guest/hello", "x")
		cancel()
		if err == nil || found || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), c.key) || !strings.Contains(err.Error(), wrong.Bucket) ||
			strings.Contains(err.Error(), "not the secret") {
			t.Errorf("want %q and %q, got %v", want, c.key, err)
		}
	}
}

// TestCertificate: a server whose authority is a file's is read from with that
// file, and without it the setting is named.
func TestCertificate(t *testing.T) {
	t.Parallel()
	cfg := startServer(t)
	keep(t, open(t, cfg), "whiskentity/guest/hello/x", []byte("code"))
	to, err := url.Parse(cfg.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(to))
	t.Cleanup(listener.Close)
	cfg.Endpoint = listener.URL
	if _, _, err := open(t, cfg).Read(t.Context(), "guest/hello", "x"); err == nil ||
		!strings.Contains(err.Error(), "unknown authority") || !strings.Contains(err.Error(), "whisk.gpu.s3.certificate") {
		t.Errorf("without the authority: %v", err)
	}
	cfg.Certificate = filepath.Join(t.TempDir(), "ca.pem")
	for text, want := range map[string]string{"": "no such file", "none": "PEM form"} {
		if text != "" {
			if err := os.WriteFile(cfg.Certificate, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "whisk.gpu.s3.certificate") {
			t.Errorf("want %q, got %v", want, err)
		}
		_ = os.Remove(cfg.Certificate)
	}
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listener.Certificate().Raw})
	if err := os.WriteFile(cfg.Certificate, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, found, err := open(t, cfg).Read(t.Context(), "guest/hello", "x"); string(got) != "code" || !found || err != nil {
		t.Errorf("with the authority: %q, %t, %v", got, found, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, endpoint := range []string{"host:9000", "ftp://host", "http://host/path", "http://user:secret@host", "http://host?x=1", "http://"} {
		if _, err := Open(Config{Bucket: "b", Endpoint: endpoint}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
	for _, cfg := range []Config{{Bucket: "b"}, {Bucket: "b", Region: "eu-west-1", Anonymous: true}, {Bucket: "b", Endpoint: "https://host:9000/", PathStyle: true}} {
		if s, err := Open(cfg); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		} else {
			s.Close()
		}
	}
}
