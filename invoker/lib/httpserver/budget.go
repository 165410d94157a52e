package httpserver

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// budget limits the connections of a server. A new connection beyond the limit replaces
// a connection whose request has not arrived, or whose client is slow to receive the
// answer. If all connections wait for their handlers, the new one waits, too. Therefore
// a short request is served even if clients keep many connections open. Clients with the
// most connections lose theirs first, the oldest connection first, but no connection is
// closed before it had time to send its request.
type budget struct {
	max int

	mu      sync.Mutex
	changed sync.Cond // signals changes of the number or phase of connections
	open    map[net.Conn]*connection
	clients map[string]int // open connections by client address
	opened  uint64         // connections ever
}

// grace is how long a connection is protected after it was opened, began its answer or
// ended it. So a flood of connections closes none before its request is read and its
// answer is sent.
const grace = 100 * time.Millisecond

// connection is one open connection. The mutex of its budget guards it.
type connection struct {
	client string
	since  time.Time // when it was opened, or began or ended an answer
	number uint64    // in the order of opening
	// requests counts the requests with running handlers, by phase. With HTTP/2 there
	// may be several.
	requests [phases]int
}

// phase is the progress of a request.
type phase int

const (
	arriving phase = iota // the body has not arrived
	handled
	answering
	phases
)

func newBudget(connections int) *budget {
	b := &budget{max: connections, open: map[net.Conn]*connection{}, clients: map[string]int{}}
	b.changed.L = &b.mu
	return b
}

type connectionKey struct{}

// admit makes room for a new connection. It is the ConnContext of an http.Server, which
// accepts no further connection before it returns.
func (b *budget) admit(ctx context.Context, conn net.Conn) context.Context {
	c := &connection{client: conn.RemoteAddr().String()}
	if host, _, err := net.SplitHostPort(c.client); err == nil {
		c.client = host
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.open) >= b.max {
		victim, age := b.victim()
		if victim != nil && age >= grace {
			b.remove(victim)
			cut(victim)
			continue
		}
		if victim != nil {
			time.AfterFunc(grace-age, b.changed.Broadcast)
		}
		b.changed.Wait()
	}
	b.opened++
	c.since, c.number = time.Now(), b.opened
	b.open[conn] = c
	b.clients[c.client]++
	return context.WithValue(ctx, connectionKey{}, c)
}

// victim returns the connection to close for a new one, and its age. It returns nil if
// all connections wait for their handlers.
func (b *budget) victim() (conn net.Conn, age time.Duration) {
	var worst *connection
	for at, c := range b.open {
		if c.requests[handled] == 0 && (worst == nil || b.compare(c, worst) < 0) {
			conn, worst = at, c
		}
	}
	if worst == nil {
		return nil, 0
	}
	return conn, time.Since(worst.since)
}

// compare orders connections: the first one is closed first.
func (b *budget) compare(x, y *connection) int {
	return cmp.Or(
		cmp.Compare(min(x.requests[answering], 1), min(y.requests[answering], 1)),
		cmp.Compare(b.clients[y.client], b.clients[x.client]),
		x.since.Compare(y.since),
		cmp.Compare(x.number, y.number))
}

func (b *budget) remove(conn net.Conn) {
	c := b.open[conn]
	if c == nil {
		return
	}
	delete(b.open, conn)
	if b.clients[c.client]--; b.clients[c.client] == 0 {
		delete(b.clients, c.client)
	}
	b.changed.Broadcast()
}

// cut closes a connection without TLS's close message, which the client might not
// receive.
func cut(conn net.Conn) {
	if over, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = over.NetConn()
	}
	_ = conn.Close() // the server notices
}

// state tracks the state of connections. It is the ConnState of an http.Server.
func (b *budget) state(conn net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		b.remove(conn)
	}
}

// full reports whether a new connection would have to replace another.
func (b *budget) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.open) >= b.max
}

// handler tracks the phases of requests. While there is no room for a new connection,
// each connection ends with its answer. Otherwise busy clients could keep theirs for
// ever.
func (b *budget) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, is := r.Context().Value(connectionKey{}).(*connection)
		if !is {
			next.ServeHTTP(w, r)
			return
		}
		if b.full() {
			w.Header().Set("Connection", "close")
		}
		p := &progress{b: b, c: c}
		p.enter(arriving)
		defer p.leave()
		if r.ContentLength == 0 {
			p.enter(handled)
		} else {
			r.Body = &body{r.Body, p}
		}
		next.ServeHTTP(&answer{w, p}, r)
	})
}

// progress is the phase of one request.
type progress struct {
	b      *budget
	c      *connection
	phase  phase
	counts bool
}

// enter moves the request to a later phase. Phases never go back.
func (p *progress) enter(to phase) {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	if p.counts && to <= p.phase {
		return
	}
	if p.counts {
		p.c.requests[p.phase]--
	}
	p.phase, p.counts = to, true
	p.c.requests[to]++
	if to == answering {
		p.c.since = time.Now()
	}
	p.b.changed.Broadcast()
}

func (p *progress) leave() {
	p.b.mu.Lock()
	defer p.b.mu.Unlock()
	p.c.requests[p.phase]--
	p.c.since = time.Now()
	p.b.changed.Broadcast()
}

// body notices the end of a request's body.
type body struct {
	io.ReadCloser
	progress *progress
}

func (b *body) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if err == io.EOF {
		b.progress.enter(handled)
	}
	return n, err
}

// answer notices the beginning of an answer.
type answer struct {
	http.ResponseWriter
	progress *progress
}

func (a *answer) Write(b []byte) (int, error) {
	a.progress.enter(answering)
	return a.ResponseWriter.Write(b)
}

func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.progress.enter(answering)
	}
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
