package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// How the names of actions begin whose runs do not end, or take their time: as
// long as took, or as many milliseconds as follow in the name.
const (
	hangs = "gpuhang"
	takes = "gputakes"
	took  = 600 * time.Millisecond
	waits = "waits"
)

// prints is how the names of actions end that print a line.
const prints = "prints"

// actionServer answers /init and /run like an action proxy whose action does nothing.
// The output of runs goes to a file in dir that is named for the called address.
func actionServer(dir string) (*http.Server, net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen for actions: %w", err)
	}
	mux := http.NewServeMux()
	reply := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = io.WriteString(w, body)
		}
	}
	mux.HandleFunc("POST /init", reply(`{"ok":true}`))
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("/"+hangs)) {
			<-r.Context().Done()
			return
		}
		if bytes.Contains(body, []byte("/"+takes)) {
			select {
			case <-time.After(took):
			case <-r.Context().Done():
				return
			}
		}
		if n := waitsFor(body); n > 0 {
			<-time.After(n)
		}
		if bytes.Contains(body, []byte(prints)) {
			host := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr).IP.String()
			go printed(filepath.Join(dir, host)) // as an engine does: beside the answer
		}
		reply(`{"ok":true}`)(w, r)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(ln) }()
	return s, ln, nil
}

// waitsFor is how long a run with such a body takes.
func waitsFor(body []byte) time.Duration {
	_, after, _ := bytes.Cut(body, []byte("/"+waits))
	n := 0
	for ; len(after) > 0 && '0' <= after[0] && after[0] <= '9'; after = after[1:] {
		n = 10*n + int(after[0]-'0')
	}
	return time.Duration(n) * time.Millisecond
}

// printed appends the output of a run to a log: a line and both sentinels.
func printed(path string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	const line = `{"log":"%s\n","stream":"%s","time":"2026-01-01T00:00:00.123456789Z"}` + "\n"
	_, _ = fmt.Fprintf(f, line+line+line, "hello World", "stdout", logs.Sentinel, "stdout", logs.Sentinel, "stderr")
}

// database is as much of CouchDB as an invoker needs: it has a small action under
// every name, and counts records.
type database struct {
	stored  atomic.Int64
	batches atomic.Int64
}

func (d *database) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		if r.URL.Query().Has("reduce") {
			_, _ = io.WriteString(w, `{"total_rows":0,"offset":0,"rows":[]}`)
			return
		}
		_, _ = io.WriteString(w, document(path.Base(r.URL.Path)))
		return
	}
	var body struct {
		Docs []struct {
			ID string `json:"_id"`
		} `json:"docs"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, `{"error":"bad_request"}`, http.StatusBadRequest)
		return
	}
	d.stored.Add(int64(len(body.Docs)))
	d.batches.Add(1)
	type answer struct {
		OK  bool   `json:"ok"`
		ID  string `json:"id"`
		Rev string `json:"rev"`
	}
	out := make([]answer, len(body.Docs))
	for i, doc := range body.Docs {
		out[i] = answer{true, doc.ID, "1-a"}
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(out)
}

// document is a small action; one whose name begins with gpu wants a GPU.
func document(name string) string {
	annotations := ""
	if strings.HasPrefix(name, "gpu") {
		annotations = `{"key":"gpu","value":true}`
	}
	lines := 0
	if strings.HasSuffix(name, prints) {
		lines = 10
	}
	return fmt.Sprintf(`{"_id":"guest/%s","_rev":"1-a","annotations":[`+annotations+`],"entityType":"action",`+
		`"exec":{"kind":"nodejs:20","code":"function main(){return {ok:true}}","binary":false},`+
		`"limits":{"concurrency":1,"logs":%d,"memory":128,"timeout":60000},"name":"%s","namespace":"guest",`+
		`"parameters":[],"publish":false,"updated":1,"version":"0.0.1"}`, name, lines, name)
}

// engine hands out containers that all are the action server, each by an
// address of its own where there is a directory with their logs.
type engine struct {
	addr string
	id   string // of the invoker, where dir is given
	dir  string
	made atomic.Int64
	died chan container.ID

	tails sync.Map // *logs.Tail by container.ID
}

func (e *engine) Create(_ context.Context, s container.Spec) (container.Handle, error) {
	n := e.made.Add(1)
	h := container.Handle{ID: container.ID(fmt.Sprint(n)), Name: s.Name, Addr: e.addr}
	if e.dir != "" {
		_, port, _ := net.SplitHostPort(e.addr)
		host := loopback(e.id, n)
		h.Addr = net.JoinHostPort(host, port)
		path := filepath.Join(e.dir, host)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return h, err
		}
		log, err := logs.OpenFile(path)
		if err != nil {
			return h, err
		}
		e.tails.Store(h.ID, logs.NewTail(log, logs.DefaultWaits()))
	}
	return h, nil
}

// loopback is the address of an invoker's container that has one of its own.
func loopback(invoker string, n int64) string { return fmt.Sprintf("127.1.%s.%d", invoker, n) }

func (e *engine) Pause(context.Context, container.ID) error    { return nil }
func (e *engine) Resume(context.Context, container.ID) error   { return nil }
func (e *engine) Remove(context.Context, container.ID) error   { return nil }
func (e *engine) OOMKilled(context.Context, container.ID) bool { return false }
func (e *engine) CleanUp(context.Context, string) error        { return nil }
func (e *engine) Died() <-chan container.ID                    { return e.died }
func (e *engine) Close() error                                 { close(e.died); return nil }
func (e *engine) LogsReady(id container.ID, req container.LogRequest) bool {
	tail, ok := e.tails.Load(id)
	return ok && tail.(*logs.Tail).Ready(req)
}
func (e *engine) Logs(ctx context.Context, id container.ID, req container.LogRequest) container.LogResult {
	tail, ok := e.tails.Load(id)
	if !ok {
		return container.LogResult{}
	}
	return tail.(*logs.Tail).Collect(ctx, req)
}
