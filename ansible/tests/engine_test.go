//go:build ansible

package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// withoutPrivileges returns a socket in front of Docker's. A container that requests all
// privileges gets the usual ones, for machines that may not grant them. Other requests
// pass unchanged.
func withoutPrivileges(t *testing.T, engine string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine") // short, because a socket's path is limited
	check.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", at)
	check.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(engine, "unix://"))
	}}
	proxy.FlushInterval = -1
	server := &http.Server{Handler: http.HandlerFunc(func(res http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/containers/create") {
			if err := unprivileged(req); err != nil {
				http.Error(res, err.Error(), http.StatusBadRequest)
				return
			}
		}
		proxy.ServeHTTP(res, req)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + at
}

// unprivileged removes Privileged from a container's settings.
func unprivileged(req *http.Request) error {
	var container map[string]any
	d := json.NewDecoder(req.Body)
	d.UseNumber()
	if err := d.Decode(&container); err != nil {
		return err
	}
	if host, ok := container["HostConfig"].(map[string]any); ok {
		delete(host, "Privileged")
	}
	body, err := json.Marshal(container)
	if err != nil {
		return err
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}
