package assembly

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestAdminPortLetsGo of clients whose request does not come, or who do not take their
// answers.
func TestAdminPortLetsGo(t *testing.T) {
	for name, request := range map[string]string{
		"half a head":     "POST /disable HTTP/1.1\r\nHost: x\r\n",
		"a body missing":  "POST /disable HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
		"answers untaken": "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := adminServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20))
				}))
				conns := make(pipes)
				ended := make(chan error, 1)
				go func() { ended <- server.Serve(conns) }()
				client, at := net.Pipe()
				conns <- at
				if _, err := io.WriteString(client, request); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * answerTime)
				synctest.Wait()
				if _, err := client.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("a minute later: %v, want a connection that is closed", err)
				}
				_ = client.Close() // a pipe's end
				if err := server.Close(); err != nil {
					t.Error(err)
				}
				<-ended
			})
		})
	}
}

// TestWellKnownLoginIsWarnedOf where other hosts reach the admin port.
func TestWellKnownLoginIsWarnedOf(t *testing.T) {
	const known = "invoker.user"
	for _, c := range []struct {
		host, user string
		warned     bool
	}{
		{"", known, true}, {"127.0.0.1", known, false}, {"", "operator", false},
	} {
		log := &bytes.Buffer{}
		a := &assembly{Options: Options{Host: c.host, Log: slog.New(slog.NewTextHandler(log, nil))}, c: &config.Config{}, closing: make(chan struct{})}
		a.c.Admin = config.Admin{Username: c.user, Password: "invoker.pass"}
		stop, err := a.openListener(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stop()
		s, err := a.status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if logged := strings.Contains(log.String(), "whisk.invoker.password"); logged != c.warned {
			t.Errorf("host %q, user %s: logged %t, want %t", c.host, c.user, logged, c.warned)
		}
		if listed := len(s.Warnings) == 1; listed != c.warned {
			t.Errorf("host %q, user %s: /status has %q", c.host, c.user, s.Warnings)
		}
	}
}
