// Package httpserver creates HTTP servers that limit the resources of an unknown client:
// the time for its request to arrive and for its answer to be received, and the number
// of open connections. The caller decides which requests a client may make.
//
// It starts no goroutines besides net/http's.
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
	// RequestTime limits the time for a request to arrive, and AnswerTime the time for
	// its answer to be received. A handler that knows its client may allow more, see
	// http.ResponseController.
	RequestTime = 10 * time.Second
	AnswerTime  = 30 * time.Second
	// eventTime limits the time for a client to receive a part of a stream.
	eventTime = 10 * time.Second
)

// New returns a server with a limited number of connections. handling is how long its
// handler may take to answer.
func New(h http.Handler, handling time.Duration, connections int) *http.Server {
	b := newBudget(connections)
	return &http.Server{
		Handler: b.handler(h), ConnContext: b.admit, ConnState: b.state,
		ReadTimeout: RequestTime, WriteTimeout: handling + AnswerTime, IdleTimeout: time.Minute,
	}
}

// Filter wraps a listener. It closes each connection whose address is not admitted.
// admit is called for every connection, by the goroutine that accepts.
func Filter(l net.Listener, admit func(netip.Addr) bool) net.Listener { return filter{l, admit} }

type filter struct {
	net.Listener
	admit func(netip.Addr) bool
}

// Accept returns the next admitted connection.
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

// IsLocal reports whether the host of a request is an IP address or localhost. The name
// of a web page's own host could lead to this server for as long as the page wants (DNS
// rebinding), but a page cannot have such a host.
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

// Stream returns a writer for an endless answer: the time limit applies to each part
// instead of the whole answer.
func Stream(w http.ResponseWriter) http.ResponseWriter {
	return stream{w, http.NewResponseController(w)}
}

type stream struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write writes a part of the stream.
func (s stream) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTime)) // on an error there is no deadline
	return s.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController access to the wrapped writer.
func (s stream) Unwrap() http.ResponseWriter { return s.ResponseWriter }
