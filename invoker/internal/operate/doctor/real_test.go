package doctor

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

func TestListenAndReach(t *testing.T) {
	// Below the range that Linux uses for clients: a client could hold the port, or a
	// client without a listener would reach itself.
	var l net.Listener
	err := errors.New("no port was tried")
	for range 100 {
		if l, err = net.Listen("tcp", fmt.Sprint(":", 19000+rand.IntN(1000))); err == nil {
			break
		}
	}
	check.NoError(t, err)
	port := peertest.PortOf(t, l.Addr().String())
	at := net.JoinHostPort("localhost", strconv.Itoa(port))
	if err := listen(t.Context(), port); err == nil {
		t.Error("a port in use is reported as free")
	}
	if err := reach(t.Context(), at); err != nil {
		t.Error(err)
	}
	l.Close()
	if err := listen(t.Context(), port); err != nil {
		t.Error(err)
	}
	if err := reach(t.Context(), at); err == nil {
		t.Error("a closed listener is reported as reachable")
	}
}

func TestPing(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		ok     bool
	}{{200, "pong", true}, {503, "not ready: waiting for Kafka\n", true}, {503, "cannot work: container engine: away\n", true}, {200, "<html>", false}, {404, "", false}} {
		s := httptest.NewServer(pinged(t, tt.status, tt.body))
		a := config.Admin{Protocol: "http", Port: peertest.PortOf(t, s.Listener.Addr().String())}
		status, text, err := Ping(t.Context(), a)
		check.Equal(t, isInvoker(status, text, err), tt.ok, "%d %q: %q, %v", tt.status, tt.body, text, err)
		s.Close()
	}
}

func pinged(t *testing.T, status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ping" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// TestPortOfAnInvokerWithTLS: the invoker is recognised with its own key store.
func TestPortOfAnInvokerWithTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(pinged(t, 200, "pong"))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	defer s.Close()
	own := s.TLS.Certificates[0]
	store, err := pkcs12.Modern.Encode(own.PrivateKey, s.Certificate(), nil, "store-pass")
	check.NoError(t, err)
	c := config.Default()
	c.Admin.Protocol, c.Admin.Port = "https", peertest.PortOf(t, s.Listener.Addr().String())
	c.Admin.TLS = config.AdminTLS{KeystorePath: filepath.Join(t.TempDir(), "own.p12"), KeystorePassword: "store-pass"}
	check.NoError(t, os.WriteFile(c.Admin.TLS.KeystorePath, store, 0o600))
	x := Examine(t.Context(), (&Machine{Config: c}).Here("", "", ""), time.Minute).only(t, "Host", "port")
	check.Equal(t, x.Status, OK)
	check.Contains(t, x.Found, "an invoker answers")
}

func TestCommand(t *testing.T) {
	out, err := command(t.Context(), []string{"WORD=hello"}, "sh", "-c", `echo "$WORD"; echo there >&2`)
	check.NoError(t, err)
	check.Equal(t, out, "hello\nthere\n")
	if _, err := command(t.Context(), nil, "no-such-program-here"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	out, err = command(t.Context(), nil, "sh", "-c", "i=0; while [ $i -lt 9000 ]; do echo 0123456789; i=$((i+1)); done")
	check.NoError(t, err)
	check.AtMost(t, len(out), 64<<10)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := command(ctx, nil, "sleep", "60"); err == nil {
		t.Error("a program outlived its context")
	}
}

func TestDisk(t *testing.T) {
	s, err := disk(t.Context(), t.TempDir())
	check.NoError(t, err)
	check.Greater(t, s.Total, 0)
	check.AtLeast(t, s.Free, 0)
	check.AtMost(t, s.Free, s.Total)
	if _, err := disk(t.Context(), filepath.Join(t.TempDir(), "no")); err == nil {
		t.Error("a missing directory has a disk")
	}
}

func TestInitProxy(t *testing.T) {
	for _, tt := range []struct {
		status int
		want   string
	}{{403, "answers /init"}, {502, "answers /init"}, {404, "status 404"}, {405, "status 405"}} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(`{"error":"Missing main/no code to execute."}`))
		}))
		output, err := initProxy(t.Context(), proxy.New(s.Listener.Addr().String(), 1))
		if err != nil {
			output = err.Error()
		}
		check.Contains(t, output, tt.want, "%d", tt.status)
		check.Equal(t, err == nil, tt.status != 404 && tt.status != 405, "%d: %v", tt.status, err)
		s.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	l.Close()
	_, err = initProxy(ctx, proxy.New(l.Addr().String(), 1))
	check.ErrorContains(t, err, "nothing answers on port 8080")
}

// TestHere examines the host of the test: whatever its state, the examination ends and
// reports on every group.
func TestHere(t *testing.T) {
	m := (&Machine{Config: config.Default(), ProbeLimit: time.Second}).Here("/opt/gpuwhisk/bin/gpuwhisk", "", "")
	r := Examine(t.Context(), m, 3*time.Second)
	groups := map[string]bool{}
	for _, x := range r {
		groups[x.Group] = true
	}
	for _, g := range []string{"GPU", "Containers", "Host", "Settings", "Kafka", "CouchDB", "ZooKeeper"} {
		if !groups[g] {
			t.Errorf("nothing of %s in %+v", g, r)
		}
	}
	check.Equal(t, m.Shim[0], "/opt/gpuwhisk/bin/libgpuwhisk.so")
	check.EqualSlices(t, shimPaths(config.Default(), "", "/a/b.so"), []string{"/a/b.so"})
}

// TestMissingStore: the error names a missing trust store, but not its password.
func TestMissingStore(t *testing.T) {
	c := config.Default()
	c.Kafka.Hosts, c.Kafka.SecurityProtocol = []string{"127.0.0.1:1"}, "SSL"
	c.Kafka.TLS.TruststoreLocation = filepath.Join(t.TempDir(), "trust.jks")
	c.Kafka.TLS.TruststorePassword = "changeit-now"
	x := Examine(t.Context(), (&Machine{Config: c}).Here("", "", ""), time.Minute).only(t, "Kafka", "brokers")
	check.Equal(t, x.Status, Fail)
	check.Contains(t, x.Found, "trust.jks")
	check.Contains(t, x.Fix, "key store")
	check.Lacks(t, x.Found, "changeit-now")
}

// dockerHost returns the configuration of a real daemon. It skips the test without one.
func dockerHost(t *testing.T) *config.Config {
	t.Helper()
	c := config.Default()
	c.Docker.Host = os.Getenv("DOCKER_HOST")
	m := (&Machine{Config: c}).Here("", "", "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := m.Docker(ctx); err != nil {
		peertest.Missing(t, fmt.Sprintf("no Docker daemon answers (DOCKER_HOST or the default socket): %v", err))
	}
	return c
}

// TestProbeOfRealImages runs an image that speaks the protocol and two others that do
// not. No container remains.
func TestProbeOfRealImages(t *testing.T) {
	c := dockerHost(t)
	good := importImage(t, c, "good", `package main

import "net/http"

func main() {
	_ = http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `+"`"+`{"error":"no code"}`+"`"+`, http.StatusForbidden)
	}))
}
`)
	ends := importImage(t, c, "ends", "package main\n\nfunc main() {}\n")
	m := (&Machine{Config: c, ProbeImages: []string{good, ends, "gpuwhisk-test/absent:1"}, ProbeLimit: time.Minute}).Here("", "", "")
	all := Examine(t.Context(), m, time.Minute)
	r := all.of("Containers", "probe")
	verdicts := map[string]Result{}
	for _, x := range r {
		for _, image := range []string{good, ends, "gpuwhisk-test/absent:1"} {
			if strings.Contains(x.Found, image) {
				verdicts[image] = x
			}
		}
	}
	check.Equal(t, verdicts[good].Status, OK, "%+v", verdicts)
	check.Contains(t, verdicts[good].Found, "answers /init")
	found := verdicts[ends].Found
	check.Equal(t, verdicts[ends].Status, Fail, "%+v", verdicts)
	check.That(t, strings.Contains(found, "ended") || strings.Contains(found, "state"), "%q", found)
	check.Equal(t, verdicts["gpuwhisk-test/absent:1"].Status, Fail, "%+v", verdicts)
	// The network was tried with two containers, of the first image or of others.
	if network := all.of("Containers", "network"); m.exists("proc/sys/net/bridge/bridge-nf-call-iptables") {
		check.Equal(t, network[0].Status, OK, "%+v", network)
		check.Contains(t, network[0].Found, "was not reached from")
	}
	left := dockerAnswers(t, c, nil, "ps", "--all", "--quiet", "--filter", "name=gpuwhisk-doctor")
	check.Equal(t, strings.TrimSpace(left), "", "containers are left")
}

// importImage creates an image with one program.
func importImage(t *testing.T, c *config.Config, name, code string) string {
	t.Helper()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	check.NoError(t, os.WriteFile(source, []byte(code), 0o600))
	build := exec.Command("go", "build", "-o", binary, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build program: %v\n%s", err, text)
	}
	data, err := os.ReadFile(binary)
	check.NoError(t, err)
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	check.NoError(t, w.WriteHeader(&tar.Header{Name: "program", Mode: 0o755, Size: int64(len(data))}))
	_, err = w.Write(data)
	check.NoError(t, errors.Join(err, w.Close()))
	image := "gpuwhisk-test/doctor-" + name + ":" + strconv.FormatInt(time.Now().UnixNano(), 36)
	dockerAnswers(t, c, &root, "import", "--change", `CMD ["/program"]`, "-", image)
	t.Cleanup(func() { dockerAnswers(t, c, nil, "image", "rm", "--force", image) })
	return image
}

func dockerAnswers(t *testing.T, c *config.Config, stdin *bytes.Buffer, args ...string) string {
	t.Helper()
	if c.Docker.Host != "" {
		args = append([]string{"--host", c.Docker.Host}, args...)
	}
	cmd := exec.Command("docker", args...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v\n%s", args, err, out)
	}
	return string(out)
}
