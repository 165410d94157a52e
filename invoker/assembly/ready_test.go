package assembly

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// An invoker that the database refuses is not ready, reports that at /ping and sends
// no ping; it is ready as soon as the database accepts it.
func TestNotReadyWithoutTheDatabase(t *testing.T) {
	bus, environ := deployment(t)
	var open atomic.Bool
	asked := make(chan struct{}, 100)
	couch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		if !open.Load() {
			http.Error(w, `{"error":"unauthorized","reason":"Name or password is incorrect."}`, http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"total_rows":0,"offset":0,"rows":[]}`))
	}))
	t.Cleanup(couch.Close)
	u, err := url.Parse(couch.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(u.Host)
	environ = append(environ, "CONFIG_whisk_couchdb_host="+host, "CONFIG_whisk_couchdb_port="+port)
	cfg, err := config.Load(config.Input{Environ: environ, Args: []string{"--id", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	pings := make(chan []byte, 1024)
	hearing, stop := context.WithCancel(t.Context())
	subscribed, received := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(received)
		_ = bus.Consume(hearing, "health", func() { close(subscribed) }, func(m []byte) { pings <- m })
	}()
	defer func() { stop(); <-received }()
	<-subscribed
	ctx, end := context.WithCancel(t.Context())
	addr, ready, ended := make(chan string, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- Run(ctx, Options{
			Config: cfg, Log: slog.New(slog.DiscardHandler), Host: "127.0.0.1", Engine: idleEngine{},
			Listening: func(a string) { addr <- a }, Ready: func() { close(ready) },
		})
	}()
	address := "http://" + <-addr + "/ping"
	for range 6 {
		<-asked
	}
	status, message := get(t, address)
	if status != http.StatusServiceUnavailable || !strings.Contains(message, "CouchDB") || len(pings) != 0 {
		t.Errorf("refused: /ping: %d %q, %d pings", status, message, len(pings))
	}
	open.Store(true)
	await(t, pings, `"isEnabled":true`)
	<-ready
	if status, message := get(t, address); status != http.StatusOK {
		t.Errorf("accepted: /ping: %d %q", status, message)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, address string) (int, string) {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}
