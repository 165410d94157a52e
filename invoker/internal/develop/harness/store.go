package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/store"
)

// The user of the database.
const storeUser, storePassword = "replay", "not secret"

// StoreServer is the embedded database behind a listener that a test can close.
type StoreServer struct {
	Served atomic.Pointer[func(*http.Request)] // called after each request

	t      testing.TB
	store  *store.Store
	addr   string
	server *http.Server

	mu      sync.Mutex
	written map[string]int // number of times that a document was sent in bulk, by id
}

func newStoreServer(t testing.TB, path string) *StoreServer {
	t.Helper()
	st, err := store.Open(store.Config{Path: path, User: storeUser, Password: storePassword})
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &StoreServer{t: t, store: st, written: map[string]int{}}
	peertest.OnFreePort(t, 16000, func(port int) error {
		s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		return s.listen()
	})
	t.Cleanup(s.Shut)
	return s
}

func (s *StoreServer) url() string { return "http://" + s.addr }

// Open starts to listen again, at the same address.
func (s *StoreServer) Open() {
	s.t.Helper()
	check.NoError(s.t, s.listen())
}

func (s *StoreServer) listen() error {
	ln, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func(server *http.Server) { _ = server.Serve(ln) }(s.server)
	return nil
}

// Shut closes every connection and the listener.
func (s *StoreServer) Shut() { _ = s.server.Close() }

func (s *StoreServer) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/_bulk_docs") {
		s.count(r)
	}
	s.store.ServeHTTP(w, r)
	if served := s.Served.Load(); served != nil {
		(*served)(r)
	}
}

// count counts the documents of a request in bulk, as records are written.
func (s *StoreServer) count(r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the store reports a body that is cut off
	r.Body = io.NopCloser(bytes.NewReader(body))
	var bulk struct {
		Docs []struct {
			ID string `json:"_id"`
		}
	}
	_ = json.Unmarshal(body, &bulk)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, doc := range bulk.Docs {
		s.written[doc.ID]++
	}
}

// Repeated returns the ids of the documents that were sent in bulk more than once.
func (s *StoreServer) Repeated() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, times := range s.written {
		if times > 1 {
			ids = append(ids, id)
		}
	}
	return ids
}
