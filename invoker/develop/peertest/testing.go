package peertest

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Missing skips a test whose peer is missing. With GPUWHISK_REQUIRE_PEERS=1 it fails
// the test instead.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Variable returns the value of a variable that a script of .ci/peers prints for the
// peer that it found or started. Without a peer it calls Missing.
func Variable(t testing.TB, name, script string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		Missing(t, fmt.Sprintf("%s is not set (.ci/peers/%s start)", name, script))
	}
	return value
}

// Tool returns the path of a program. Without the program it calls Missing.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, fmt.Sprintf("no %s on this machine", name))
	}
	return path
}

// ends holds the functions that Exit calls.
var ends struct {
	sync.Mutex
	all []func() error
}

// AtExit registers a function for Exit. Exit calls the functions in reverse order.
func AtExit(end func() error) {
	ends.Lock()
	defer ends.Unlock()
	ends.all = append(ends.all, end)
}

// Exit calls the functions that were registered by AtExit, and then exits with the
// code, or with 1 if a function failed. TestMain calls it last.
func Exit(code int) {
	for _, end := range slices.Backward(ends.all) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Docker runs the docker command and returns its output. The command finds its daemon
// as our engine does.
func Docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// NeedDocker returns the address of the Docker daemon. It skips the test if no daemon
// answers.
func NeedDocker(t testing.TB) (host string) {
	t.Helper()
	if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		Missing(t, fmt.Sprintf("no Docker daemon answers (DOCKER_HOST or the default socket): %v: %.200s", err, out))
	}
	if host = os.Getenv("DOCKER_HOST"); host == "" {
		host = "unix:///var/run/docker.sock"
	}
	return host
}

// Images returns the tag of the images of our action proxies. The images are built
// once for each state of their sources and are kept.
var Images = sync.OnceValues(func() (tag string, err error) {
	if tag := os.Getenv("GPUWHISK_TEST_IMAGES_TAG"); tag != "" {
		return tag, nil
	}
	output, err := Script(nil, "images", "start")
	return output["GPUWHISK_TEST_IMAGES_TAG"], err
})

// ports holds the ports in use by running tests.
var ports sync.Map

// OnFreePort calls listen with free ports until one succeeds. The ports are the
// thousand from first on; they lie below the range that Linux gives to clients, so a
// server can listen on the same port again later. Packages are tested at the same
// time, so each package has its own thousand.
func OnFreePort(t testing.TB, first int, listen func(port int) error) {
	t.Helper()
	var err error
	for range 1000 {
		port := first + rand.IntN(1000)
		if _, taken := ports.LoadOrStore(port, true); taken {
			continue
		}
		t.Cleanup(func() { ports.Delete(port) })
		if err = listen(port); err == nil {
			return
		}
	}
	t.Fatalf("no free port: %v", err)
}

// FreePort returns a port without a listener, for a program that takes a port number.
// See OnFreePort.
func FreePort(t testing.TB, first int) (free int) {
	t.Helper()
	OnFreePort(t, first, func(port int) error {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			return err
		}
		free = port
		return l.Close()
	})
	return free
}

// PortOf returns the port of an address.
func PortOf(t testing.TB, address string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Log returns a logger that writes to Output.
func Log(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(Output(t), nil)) }

// Output returns a writer whose text is printed if the tests run verbosely. Otherwise
// the end of the text is printed if the test fails.
func Output(t testing.TB) io.Writer {
	if testing.Verbose() {
		return t.Output()
	}
	last := &Tail{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log ended with\n%s", last)
		}
	})
	return last
}

// Tail is a writer that keeps the end of the written text.
type Tail struct {
	mu     sync.Mutex
	output []byte
}

func (w *Tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 8 << 10
	if w.output = append(w.output, p...); len(w.output) > 2*most {
		w.output = append(w.output[:0], w.output[len(w.output)-most:]...)
	}
	return len(p), nil
}

// String returns the kept text.
func (w *Tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.output)
}
