// Package httpserver makes HTTP servers that bound what an unknown client can hold: how
// long its request may take to come and its answer to be taken, and how many connections
// are open at once. The caller decides what a client may do.
//
// It has no goroutines but those of net/http.
package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// RequestTime is how long a request may take to come, and AnswerTime how long its
	// answer to be taken. A handler that has found out whose request it is may allow
	// more, see http.ResponseController.
	RequestTime = 10 * time.Second
	AnswerTime  = 30 * time.Second
	// eventTime is how long a client may take for a part of a stream.
	eventTime = 10 * time.Second
)

// New makes a server of at most so many connections at once. handling is how long its
// handler may take to answer.
func New(h http.Handler, handling time.Duration, connections int) *http.Server {
	b := newBudget(connections)
	return &http.Server{
		Handler: b.handler(h), ConnContext: b.admit, ConnState: b.state,
		ReadTimeout: RequestTime, WriteTimeout: handling + AnswerTime, IdleTimeout: time.Minute,
	}
}

// Filter makes a listener of one that closes each connection from an address that is not
// admitted. admit is called for every connection, from the goroutine that accepts.
func Filter(l net.Listener, admit func(netip.Addr) bool) net.Listener { return filter{l, admit} }

type filter struct {
	net.Listener
	admit func(netip.Addr) bool
}

// Accept returns the next connection that is admitted.
func (f filter) Accept() (net.Conn, error) {
	for {
		conn, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && f.admit(from.Addr().Unmap()) {
			return conn, nil
		}
		_ = conn.Close() // nothing was read from it
	}
}

// IsLocal reports whether the host of a request is an address or localhost. A web page
// cannot have such a host: any other name may be the page's own, which leads to this
// server for as long as the page wants (DNS rebinding).
func IsLocal(host string) bool {
	host = hostName(host)
	return strings.EqualFold(host, "localhost") || net.ParseIP(host) != nil
}

// IsNamed reports whether the host of a request is one of the names.
func IsNamed(host string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, hostName(host)) })
}

// hostName returns a request's host without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// Stream makes a writer for an answer without an end: each part has a time to be taken
// instead of the whole.
func Stream(w http.ResponseWriter) http.ResponseWriter {
	return stream{w, http.NewResponseController(w)}
}

type stream struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write writes a part.
func (s stream) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTime)) // without deadlines the client waits for ever
	return s.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach what it needs.
func (s stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
