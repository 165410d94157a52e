package elasticsearch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// node is Elasticsearch itself, one for all tests, each of which has indices of
// its own. It ends with the process.
var node = sync.OnceValues(startNode)

var stopNode = func() {}

func TestMain(m *testing.M) {
	rc := m.Run()
	stopNode()
	os.Exit(rc)
}

func startNode() (address string, err error) {
	jars := os.Getenv("GPUWHISK_TEST_ELASTICSEARCH")
	java, err := exec.LookPath("java")
	if jars == "" || err != nil {
		return "", nil
	}
	home, err := os.MkdirTemp("", "elasticsearch")
	if err != nil {
		return "", err
	}
	cmd := exec.Command(java, "-Xms192m", "-Xmx192m", "-Dlog4j2.disable.jmx=true",
		"-cp", jars+":"+filepath.Join(jars, "*"), "Elasticsearch", home)

	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // it ends with this
	if err != nil {
		return "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stopNode = func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(home)
	}
	late := time.AfterFunc(4*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if port, ok := strings.CutPrefix(lines.Text(), "port "); ok {
			return "127.0.0.1:" + port, nil
		}
	}
	return "", fmt.Errorf("elasticsearch does not start: %s", "")
}

// server is a proxy of the node, which requires a login and may answer instead of
// the node.
type server struct {
	t        testing.TB
	node     string
	listener *httptest.Server
	name     string // of the test's indices

	mu       sync.Mutex
	instead  func(w http.ResponseWriter, r *http.Request) bool
	requests int
}

const (
	user     = "admin"
	password = "of a test"
)

func startServer(t testing.TB) *server {
	t.Helper()
	address, err := node()
	check.NoError(t, err)
	if address == "" {
		peertest.Missing(t, "no Elasticsearch: .ci/peers/elasticsearch.sh start installs it, and needs java")
	}
	s := &server{t: t, node: "http://" + address, name: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))}
	to, _ := url.Parse(s.node)
	proxy := httputil.NewSingleHostReverseProxy(to)
	s.listener = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != user || p != password {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"type":"security_exception","reason":"unable to authenticate user"},"status":401}`)
			return
		}
		s.mu.Lock()
		s.requests++
		instead := s.instead
		s.mu.Unlock()
		if instead == nil || !instead(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.listener.Close)
	return s
}

// answer has requests that are writes answered so; empty means by the node.
func (s *server) answer(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = nil
	if body != "" {
		s.instead = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/_bulk" {
				return false
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
}

func (s *server) config() Config {
	return Config{
		Protocol: "http", Hosts: []string{s.listener.Listener.Addr().String()},
		Username: user, Password: password, Index: s.name + "-%s",
		Records: records.Config{BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond},
	}
}

// read is the source of a document as the node keeps it.
func (s *server) read(id string) (json.RawMessage, bool) {
	s.t.Helper()
	var found struct {
		Found  bool
		Source json.RawMessage `json:"_source"`
	}
	s.ask(http.MethodGet, "/"+s.name+"-guest/_doc/"+url.PathEscape(id), "", &found)
	return found.Source, found.Found
}

// keeps checks that the node returns a document as it was sent.
func (s *server) keeps(d records.Document) {
	s.t.Helper()
	want, _ := source(d.Body)
	got, ok := s.read(d.ID)
	check.That(s.t, ok, "%s", d.ID)
	check.Equal(s.t, string(got), string(want))
}

// ask sends a request to the node itself.
func (s *server) ask(method, path, body string, into any) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.node+path, strings.NewReader(body))
	check.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	check.NoError(s.t, err)
	defer res.Body.Close()
	check.NoError(s.t, json.NewDecoder(res.Body).Decode(into))
}

// httptestServer answers everything with a text, at the address it returns.
func httptestServer(t *testing.T, text string) string {
	t.Helper()
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	t.Cleanup(listener.Close)
	return listener.Listener.Addr().String()
}
