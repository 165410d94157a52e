package runtimes_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/docker/runtimes/native"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// waitLimit limits the wait for an event that should happen soon, on a busy machine.
const waitLimit = time.Minute

// sentinel is the line that a proxy prints on both streams at the end of an activation.
// OpenWhisk's log collectors search for exactly this text.
const sentinel = "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX"

// asNative makes the test binary act as the native proxy, so that no other program must
// be built.
const asNative = "GPUWHISK_TEST_NATIVE_PROXY"

func TestMain(m *testing.M) {
	if os.Getenv(asNative) == "" {
		os.Exit(m.Run())
	}
	environ := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, asNative+"=")
	})
	if err := native.Run(context.Background(), environ, os.Stdout, os.Stderr); err != nil {
		os.Exit(1)
	}
}

// running is an action proxy in its own process.
type running struct {
	t        testing.TB
	network  string // tcp or unix
	port     string // its configured host:port
	addr     string // where it listens
	dir      string
	cmd      *exec.Cmd
	out, err stream
	client   *http.Client
}

// stream collects one of the process's outputs.
type stream struct {
	mu   sync.Mutex
	text bytes.Buffer
	seen chan struct{} // receives one token after output was added
}

func (s *stream) add(line string) {
	s.mu.Lock()
	s.text.WriteString(line)
	s.mu.Unlock()
	select {
	case s.seen <- struct{}{}:
	default:
	}
}

// until waits for n sentinels. It returns the output so far and clears it.
func (s *stream) until(t testing.TB, n int) string {
	t.Helper()
	timeout := time.After(waitLimit)
	for {
		s.mu.Lock()
		text := s.text.String()
		if strings.Count(text, sentinel) >= n {
			s.text.Reset()
			s.mu.Unlock()
			return text
		}
		s.mu.Unlock()
		select {
		case <-s.seen:
		case <-timeout:
			t.Fatalf("no %d sentinels in %q", n, text)
		}
	}
}

// findPrograms searches once, because the result is the same for every test.
var findPrograms = sync.OnceValue(func() runtimes.Programs {
	return runtimes.FindPrograms(context.Background())
})

// start runs the proxy of a family with only the given environment. It skips the test if
// the interpreter is missing.
func start(t testing.TB, family runtimes.Family, env ...string) *running {
	t.Helper()
	programs := findPrograms()
	self, err := os.Executable()
	check.NoError(t, err)
	programs.Native = []string{self}
	sources := t.TempDir()
	check.NoError(t, runtimes.Write(sources))
	argv, err := programs.Command(sources, string(family)+":any")
	if errors.Is(err, runtimes.ErrNoProgram) {
		peertest.Missing(t, fmt.Sprintf("no interpreter for %s on PATH", family))
	}
	check.NoError(t, err)
	p := &running{t: t, dir: t.TempDir(), cmd: exec.Command(argv[0], argv[1:]...)}
	p.launch(family, env)
	return p
}

func (p *running) launch(family runtimes.Family, env []string) {
	p.t.Helper()
	p.network, p.port = "tcp", freeAddr(p.t)
	p.addr = p.port
	host, port, _ := net.SplitHostPort(p.port)
	p.cmd.Dir = p.dir
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + p.dir,
		"__OW_PROXY_HOST=" + host, "__OW_PROXY_PORT=" + port}, env...)
	for _, v := range env {
		if path, found := strings.CutPrefix(v, "__OW_PROXY_SOCKET="); found {
			p.network, p.addr = "unix", filepath.Join(p.dir, path)
		}
	}
	if family == runtimes.Native {
		p.cmd.Env = append(p.cmd.Env, asNative+"=1")
	}
	var wg sync.WaitGroup
	p.out.seen, p.err.seen = make(chan struct{}, 1), make(chan struct{}, 1)
	for s, pipe := range map[*stream]func() (io.ReadCloser, error){
		&p.out: p.cmd.StdoutPipe, &p.err: p.cmd.StderrPipe,
	} {
		r, err := pipe()
		check.NoError(p.t, err)
		wg.Go(func() {
			for lines := bufio.NewReader(r); ; {
				line, err := lines.ReadString('\n')
				s.add(line)
				if err != nil {
					return
				}
			}
		})
	}
	check.NoError(p.t, p.cmd.Start())
	p.client = &http.Client{Transport: &http.Transport{DialContext: p.connect}, Timeout: time.Minute}
	p.t.Cleanup(func() {
		p.client.CloseIdleConnections()
		p.cmd.Process.Kill()
		wg.Wait()
		p.cmd.Wait()
	})
	p.await()
}

// connect opens a connection to the proxy, regardless of the URL.
func (p *running) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, p.network, p.addr)
}

// await blocks until the proxy listens.
func (p *running) await() {
	p.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(waitLimit); time.Now().Before(deadline); <-tick.C {
		c, err := p.connect(p.t.Context(), "", "")
		if err == nil {
			c.Close()
			return
		}
	}
	p.t.Fatalf("the proxy does not listen; its errors: %q", p.err.text.String())
}

// inUse holds the addresses of running tests.
var inUse sync.Map

// freeAddr returns an address without a listener. No other test gets it until this test
// ends, because two proxies must not share an address.
func freeAddr(t testing.TB) string {
	t.Helper()
	// Use a port below the range from which Linux assigns ports to clients, because a
	// client could take the port before the proxy listens. Packages are tested
	// concurrently, so each has a separate range.
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(2000))
		if _, taken := inUse.LoadOrStore(addr, true); taken {
			continue
		}
		t.Cleanup(func() { inUse.Delete(addr) })
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	t.Fatal("no free port")
	return ""
}

// post sends a body and returns the status and the answer. The status is 0 without an
// answer.
func (p *running) post(path, body string) (int, string) {
	p.t.Helper()
	resp, err := p.client.Post("http://proxy"+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	check.AtLeast(p.t, resp.ContentLength, 0, "%s answers without a length", path)
	return resp.StatusCode, string(text)
}

// initBody returns the body of /init.
func initBody(code, main string, binary bool, env map[string]any) string {
	body, err := json.Marshal(map[string]any{"value": map[string]any{
		"name": "test", "main": main, "binary": binary, "code": code, "env": env}})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func runBody(value string) string {
	return `{"value":` + value + `,"activation_id":"aid","api_key":"k:s","action_version":null}`
}

// load initialises the proxy and checks that it succeeds.
func (p *running) load(code string) {
	p.t.Helper()
	status, text := p.post("/init", initBody(code, "main", false, nil))
	check.Equal(check.Must(p.t), status, 200, "init: %d %s", status, text)
}

// run runs the action on a value and checks the status and the answer.
func (p *running) run(value string, status int, want string) {
	p.t.Helper()
	got, text := p.post("/run", runBody(value))
	check.Equal(p.t, got, status)
	check.Equal(p.t, text, want)
}

// returns runs the action on a value and checks the result.
func (p *running) returns(value string, want any) {
	p.t.Helper()
	status, text := p.post("/run", runBody(value))
	check.Equal(p.t, status, 200)
	check.DeepEqual(p.t, mustJSON(p.t, text), want)
}

// refuses sends a body and checks the error.
func (p *running) refuses(path, body string, status int, want string) {
	p.t.Helper()
	got, text := p.post(path, body)
	check.Equal(p.t, got, status, "%s", path)
	check.Equal(p.t, failure(p.t, text), want, "%s", path)
}

// failure returns the error in an answer.
func failure(t testing.TB, text string) string {
	t.Helper()
	e, _ := mustJSON(t, text).(map[string]any)["error"].(string)
	return e
}

// loading is a case of code that is loaded or refused.
type loading struct {
	name, code, main string
	status           int
	err, log         string // error of the answer, or its beginning up to ": "; a part of the log
}

// testLoading loads each code into a separate proxy.
func testLoading(t *testing.T, family runtimes.Family, ownSource string, cases []loading) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, family)
			status, text := p.post("/init", initBody(c.code, c.main, c.name == "no base64", nil))
			err := failure(t, text)
			begins := strings.HasSuffix(c.err, ": ") && strings.HasPrefix(err, c.err)
			check.Equal(t, status, c.status, "%d %q", status, text)
			if err != c.err && !begins {
				t.Errorf("%d %q", status, text)
			}
			if c.log == "" {
				return
			}
			_, log := p.logs()
			check.Contains(t, log, c.log, "log %q", log)
			check.Lacks(t, log, ownSource, "log %q", log)
		})
	}
}

// logs returns the output of one activation without the sentinels.
func (p *running) logs() (out, err string) {
	p.t.Helper()
	strip := func(s string) string { return strings.TrimSuffix(s, sentinel+"\n") }
	return strip(p.out.until(p.t, 1)), strip(p.err.until(p.t, 1))
}

func mustJSON(t testing.TB, text string) any {
	t.Helper()
	var v any
	err := json.Unmarshal([]byte(text), &v)
	check.NoError(t, err, "in %q", text)
	return v
}
