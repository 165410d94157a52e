package harness

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// Fault answers a request in place of a server, or passes it to next.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Faults injects faults in front of a server; see Proxy.
type Faults struct {
	mu        sync.Mutex
	part      string // requests with this part in their path are spoilt
	fault     Fault
	remaining int // number of requests that will still be spoilt
}

// Always is more requests than any test makes.
const Always = 1 << 30

// Wrap returns a handler that applies the current fault before next.
func (f *Faults) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if do := f.aimedAt(r); do != nil {
			do(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Strike applies a fault to the given number of requests with the part in their path.
func (f *Faults) Strike(part string, times int, do Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.part, f.remaining, f.fault = part, times, do
}

// Clear ends the fault.
func (f *Faults) Clear() { f.Strike("", 0, nil) }

func (f *Faults) aimedAt(r *http.Request) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.remaining == 0 || !strings.Contains(r.URL.Path, f.part) {
		return nil
	}
	f.remaining--
	return f.fault
}

// Remaining returns the number of requests that will still be spoilt.
func (f *Faults) Remaining() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remaining
}

// AnswerStatus answers with a status and an error document, as CouchDB does.
func AnswerStatus(code int) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"error":"spoilt","reason":"status %d"}`, code)
	}
}

// HangUp breaks the connection without an answer.
func HangUp(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
