// Package bench measures the invoker against its floor: the same two Kafka
// hops and the same two HTTP exchanges (the action's /run, the database's
// _bulk_docs) with nothing between them. Both run in one process, in turns, so
// that a noisy machine is equally noisy for both. Everything it measures lies
// in its tests; this file only holds the parts that both sides share.
package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// hangs is how the names of actions begin whose runs do not end.
const hangs = "gpuhang"

// actionServer answers /init and /run as an action proxy that does nothing.
func actionServer() (*http.Server, net.Listener, error) {
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
		reply(`{"ok":true}`)(w, r)
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(ln) }()
	return s, ln, nil
}

// database is as much of CouchDB as an invoker talks to: a small action under
// every name, and a place where records vanish.
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
	notes := ""
	if strings.HasPrefix(name, "gpu") {
		notes = `{"key":"gpu","value":true}`
	}
	return fmt.Sprintf(`{"_id":"guest/%s","_rev":"1-a","annotations":[`+notes+`],"entityType":"action",`+
		`"exec":{"kind":"nodejs:20","code":"function main(){return {ok:true}}","binary":false},`+
		`"limits":{"concurrency":1,"logs":0,"memory":128,"timeout":60000},"name":"%s","namespace":"guest",`+
		`"parameters":[],"publish":false,"updated":1,"version":"0.0.1"}`, name, name)
}

// engine hands out containers that all are the action server.
type engine struct {
	addr string
	made atomic.Int64
	died chan container.ID
}

func (e *engine) Create(_ context.Context, s container.Spec) (container.Handle, error) {
	return container.Handle{ID: container.ID(fmt.Sprint(e.made.Add(1))), Name: s.Name, Addr: e.addr}, nil
}

func (e *engine) Pause(context.Context, container.ID) error    { return nil }
func (e *engine) Resume(context.Context, container.ID) error   { return nil }
func (e *engine) Remove(context.Context, container.ID) error   { return nil }
func (e *engine) OOMKilled(context.Context, container.ID) bool { return false }
func (e *engine) CleanUp(context.Context, string) error        { return nil }
func (e *engine) Died() <-chan container.ID                    { return e.died }
func (e *engine) Close() error                                 { close(e.died); return nil }
func (e *engine) Logs(context.Context, container.ID, container.LogRequest) container.LogResult {
	return container.LogResult{}
}
