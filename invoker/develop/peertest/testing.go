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

// Missing skips a test for want of a peer, or fails it where peers must be there
// (GPUWHISK_REQUIRE_PEERS=1).
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// Variable gives what a script of .ci/peers has found or started, by the variable that
// it prints, or skips a test for want of it as Missing does.
func Variable(t testing.TB, name, script string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		Missing(t, fmt.Sprintf("%s is not set (.ci/peers/%s start)", name, script))
	}
	return value
}

// Tool gives the path of a program, or skips a test for want of it as Missing does.
func Tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Missing(t, fmt.Sprintf("no %s on this machine", name))
	}
	return path
}

// ends are what outlives single tests.
var ends struct {
	sync.Mutex
	all []func() error
}

// AtExit has Exit call end, the last one first.
func AtExit(end func() error) {
	ends.Lock()
	defer ends.Unlock()
	ends.all = append(ends.all, end)
}

// Exit ends what the tests of a package started together, and then the process:
// with code, or with 1 where that failed. TestMain calls it last.
func Exit(code int) {
	for _, end := range slices.Backward(ends.all) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// Docker runs the docker command, which finds its daemon as our engine does, and
// gives its output.
func Docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// NeedDocker gives the address of the daemon, or skips a test where none answers.
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

// Images gives the tag of the images of our action proxies. They are built once
// per state of their sources, and stay for the next time.
var Images = sync.OnceValues(func() (tag string, err error) {
	if tag := os.Getenv("GPUWHISK_TEST_IMAGES_TAG"); tag != "" {
		return tag, nil
	}
	output, err := Script(nil, "images", "start")
	return output["GPUWHISK_TEST_IMAGES_TAG"], err
})

// ports are those that running tests were given.
var ports sync.Map

// OnFreePort has listen take a port that can be taken again: one of the thousand
// from first on, below those that Linux gives to clients, and one that no other
// test of the package has. Packages are tested at once: each has its own thousand.
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

// FreePort is a port without a listener, for a program that is given its number: see
// OnFreePort.
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

// PortOf is the port of an address.
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

// Log is a logger to Output.
func Log(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(Output(t), nil)) }

// Output prints what is written to it when the test runs verbosely, and the last of
// it when it fails.
func Output(t *testing.T) io.Writer {
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

// Tail keeps the end of what is written to it.
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

// String is what was kept.
func (w *Tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.output)
}
