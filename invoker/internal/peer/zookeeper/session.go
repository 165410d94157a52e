package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
)

// sessionTimeout is the time after which the server ends a silent session. It matters
// little, because we create no ephemeral nodes.
const sessionTimeout = 10 * time.Second

// answerLimit is the time after which a silent connection is replaced by another one. A
// starting server accepts connections and may never answer on them. The library would
// wait ten times as long for the beginning of a greeting, and for ever for the rest.
const answerLimit = sessionTimeout * 2 / 3

// limited is a connection whose reads block for at most answerLimit.
type limited struct{ net.Conn }

func dial(network, address string, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	return limited{conn}, nil
}

// SetReadDeadline sets the deadline, or the latest that there may be.
func (c limited) SetReadDeadline(at time.Time) error {
	if latest := time.Now().Add(answerLimit); at.IsZero() || at.After(latest) {
		at = latest
	}
	return c.Conn.SetReadDeadline(at)
}

// unimplemented is the server's answer to an unknown operation. The library does not
// define an error for it.
const unimplemented = "unknown error: -6"

// session is a tree on a real server.
type session struct {
	conn *zk.Conn
	ctx  context.Context
	// stop undoes the closing of conn at the end of ctx.
	stop func() bool
}

// silent discards the library's log lines. Failures are returned as errors.
type silent struct{}

func (silent) Printf(string, ...any) {}

// connect starts a session. Calls wait for its first connection; the end of
// ctx ends them.
func connect(ctx context.Context, servers []string) (*session, error) {
	conn, _, err := zk.Connect(servers, sessionTimeout, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(dial))
	if err != nil {
		// A name that does not resolve may do so later.
		return nil, fmt.Errorf("connect to zookeeper: %w: %w", errAway, err)
	}
	return &session{conn, ctx, context.AfterFunc(ctx, conn.Close)}, nil
}

func (s *session) close() {
	s.stop()
	s.conn.Close()
}

func (s *session) children(path string) ([]string, error) {
	names, _, err := s.conn.Children(path)
	return names, s.translate("list", path, err)
}

func (s *session) get(path string) ([]byte, int32, error) {
	data, stat, err := s.conn.Get(path)
	if err != nil {
		return nil, 0, s.translate("read", path, err)
	}
	return data, stat.Version, nil
}

func (s *session) create(path string, data []byte, container bool) error {
	var err error
	if container {
		_, err = s.conn.CreateContainer(path, data, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	} else {
		_, err = s.conn.Create(path, data, 0, zk.WorldACL(zk.PermAll))
	}
	return s.translate("create", path, err)
}

func (s *session) change(steps ...step) error {
	ops := make([]any, len(steps))
	for i, st := range steps {
		switch st.kind {
		case create:
			ops[i] = &zk.CreateRequest{Path: st.path, Data: st.data, Acl: zk.WorldACL(zk.PermAll)}
		case set:
			ops[i] = &zk.SetDataRequest{Path: st.path, Data: st.data, Version: st.version}
		case remove:
			ops[i] = &zk.DeleteRequest{Path: st.path, Version: st.version}
		}
	}
	_, err := s.conn.Multi(ops...)
	return s.translate("change", mappingPath, err)
}

// translate maps the library's errors into ours.
func (s *session) translate(verb, path string, err error) error {
	if err == nil {
		return nil
	}
	kind := err
	switch {
	case errors.Is(err, zk.ErrNoNode):
		kind = errNoNode
	case errors.Is(err, zk.ErrNodeExists):
		kind = errNodeExists
	case errors.Is(err, zk.ErrBadVersion):
		kind = errConflict
	case err.Error() == unimplemented:
		kind = errNotServed
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrClosing),
		errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrSessionMoved):
		kind = fmt.Errorf("%w: %w", errAway, err)
	}
	return fmt.Errorf("%s %s: %w", verb, path, kind)
}
