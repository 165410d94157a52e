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
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	check.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// TestRead: an attachment that a controller stored is found under its key, byte for
// byte.
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
		check.NoError(t, err, "prefix %q: %d bytes, %t", prefix, len(got), found)
		check.That(check.Must(t), found, "prefix %q: %d bytes, %t, %v", prefix, len(got), found, err)
		check.EqualSlices(t, got, code, "prefix %q", prefix)
		got, found, err = s.Read(t.Context(), "guest/tools/hello", "other")
		check.That(t, got == nil, "a missing object: %d bytes, %t, %v", len(got), found, err)
		check.That(t, !found, "a missing object: %d bytes, %t, %v", len(got), found, err)
		check.NoError(t, err, "a missing object")
		check.NoError(t, s.Probe(t.Context()))
		_, _, err = s.read(t.Context(), at, 1000)
		check.ErrorContains(t, err, "more than", "an object above the limit")
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
		check.That(check.Must(t), err != nil, "want %q and %q, got %v", want, c.key, err)
		check.That(t, !found, "want %q and %q, got %v", want, c.key, err)
		check.ErrorContains(t, err, want)
		check.ErrorContains(t, err, c.key)
		check.ErrorContains(t, err, wrong.Bucket)
		check.Lacks(t, err.Error(), "not the secret")
	}
}

// TestCertificate: a server whose authority is a file's is read from with that
// file, and without it the setting is named.
func TestCertificate(t *testing.T) {
	t.Parallel()
	cfg := startServer(t)
	keep(t, open(t, cfg), "whiskentity/guest/hello/x", []byte("code"))
	to, err := url.Parse(cfg.Endpoint)
	check.NoError(t, err)
	listener := httptest.NewTLSServer(httputil.NewSingleHostReverseProxy(to))
	t.Cleanup(listener.Close)
	cfg.Endpoint = listener.URL
	_, _, err = open(t, cfg).Read(t.Context(), "guest/hello", "x")
	check.ErrorContains(check.Must(t), err, "unknown authority", "without the authority")
	check.ErrorContains(t, err, "whisk.gpu.s3.certificate", "without the authority")
	cfg.Certificate = filepath.Join(t.TempDir(), "ca.pem")
	for text, want := range map[string]string{"": "no such file", "none": "PEM form"} {
		if text != "" {
			check.NoError(t, os.WriteFile(cfg.Certificate, []byte(text), 0o600))
		}
		_, err := Open(cfg)
		check.ErrorContains(check.Must(t), err, want)
		check.ErrorContains(t, err, "whisk.gpu.s3.certificate")
		_ = os.Remove(cfg.Certificate)
	}
	trusted := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listener.Certificate().Raw})
	check.NoError(t, os.WriteFile(cfg.Certificate, trusted, 0o600))
	got, found, err := open(t, cfg).Read(t.Context(), "guest/hello", "x")
	check.Equal(t, string(got), "code", "with the authority")
	check.That(check.Must(t), found, "with the authority: %q, %t, %v", got, found, err)
	check.NoError(t, err, "with the authority: %q, %t", got, found)
}

func TestOpenRefuses(t *testing.T) {
	for _, endpoint := range []string{"host:9000", "ftp://host", "http://host/path", "http://user:secret@host", "http://host?x=1", "http://"} {
		_, err := Open(Config{Bucket: "b", Endpoint: endpoint})
		check.That(check.Must(t), err != nil, "%s: %v", endpoint, err)
		check.Lacks(t, err.Error(), "secret", "%s", endpoint)
	}
	for _, cfg := range []Config{{Bucket: "b"}, {Bucket: "b", Region: "eu-west-1", Anonymous: true}, {Bucket: "b", Endpoint: "https://host:9000/", PathStyle: true}} {
		if s, err := Open(cfg); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		} else {
			s.Close()
		}
	}
}
