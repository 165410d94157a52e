package harness

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// Fault answers a request in the place of a server, or has next answer it.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Faults is a switch before a server (Proxy).
type Faults struct {
	mu   sync.Mutex
	part string // of the path of requests that are spoilt
	do   Fault
	left int // how often it strikes
}

// Always is a number of requests that no test makes.
const Always = 1 << 30

// Wrap has requests pass the switch.
func (f *Faults) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if do := f.aimedAt(r); do != nil {
			do(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Strike spoils so many requests that have the part in their path.
func (f *Faults) Strike(part string, times int, do Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.part, f.left, f.do = part, times, do
}

// Clear ends the fault.
func (f *Faults) Clear() { f.Strike("", 0, nil) }

func (f *Faults) aimedAt(r *http.Request) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 || !strings.Contains(r.URL.Path, f.part) {
		return nil
	}
	f.left--
	return f.do
}

// Remaining reports how many strikes are left.
func (f *Faults) Remaining() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left
}

// AnswerStatus answers as CouchDB reports an error.
func AnswerStatus(code int) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"error":"spoilt","reason":"status %d"}`, code)
	}
}

// HangUp breaks the connection without an answer.
func HangUp(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }
