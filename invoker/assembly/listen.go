package assembly

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/tlsstore"
)

// openDoor serves the admin endpoints from the start on, so that /status can
// say what the start is waiting for.
func (a *assembly) openDoor(ctx context.Context) (func(), error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(a.Host, strconv.Itoa(a.c.Admin.Port)))
	if err != nil {
		return nil, fmt.Errorf("open the admin port: %w (PORT names another)", err)
	}
	server := &http.Server{Handler: a.door(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	server.RegisterOnShutdown(func() { close(a.closing) })
	done := make(chan struct{})
	serve := func() error { return server.Serve(listener) }
	if a.c.Admin.Protocol == "https" {
		t := a.c.Admin.TLS
		server.TLSConfig, err = tlsstore.Server(tlsstore.File{Path: t.KeystorePath, Password: t.KeystorePassword}, t.ClientAuth)
		if err != nil {
			_ = listener.Close()
			return nil, fmt.Errorf("open the key store of the admin port: %w", err)
		}
		serve = func() error { return server.ServeTLS(listener, "", "") }
	}
	go func() {
		defer close(done)
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			a.Log.Error("admin port closed", "error", err)
		}
	}()
	a.admin = listener.Addr().String()
	if a.Listening != nil {
		a.Listening(listener.Addr().String())
	}
	return func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		_ = server.Shutdown(stop)
		<-done
	}, nil
}
