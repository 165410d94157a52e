package assembly

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
)

// idleEngine is an engine without containers.
type idleEngine struct{ Engine }

func (idleEngine) CleanUp(context.Context, string) error { return nil }
func (idleEngine) Died() <-chan container.ID             { return nil }
func (idleEngine) Close() error                          { return nil }

// deployment is a broker with the topics that a controller makes, and a database
// without blocked namespaces, with the environment of an invoker between them.
func deployment(t *testing.T) (*broker.Bus, []string) {
	t.Helper()
	b, err := broker.Start(t.TempDir(), 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	bus, err := broker.Dial([]string{b.Addr()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	if err := bus.CreateTopics(t.Context(), []broker.Topic{{Name: "health", Retention: time.Hour}}); err != nil {
		t.Fatal(err)
	}
	couch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"total_rows":0,"offset":0,"rows":[]}`))
	}))
	t.Cleanup(couch.Close)
	u, err := url.Parse(couch.URL)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	return bus, []string{
		"KAFKA_HOSTS=" + b.Addr(), "WHISK_API_HOST_NAME=localhost", "PORT=0",
		`RUNTIMES_MANIFEST={"runtimes":{},"blackboxes":[]}`,
		"CONFIG_whisk_couchdb_protocol=http", "CONFIG_whisk_couchdb_host=" + host, "CONFIG_whisk_couchdb_port=" + port,
		"CONFIG_whisk_couchdb_username=u", "CONFIG_whisk_couchdb_password=p",
		"CONFIG_whisk_couchdb_databases_WhiskAuth=subjects", "CONFIG_whisk_couchdb_databases_WhiskEntity=whisks",
		"CONFIG_whisk_couchdb_databases_WhiskActivation=activations", "CONFIG_whisk_gpu_devices=none",
		"CONFIG_whisk_gpu_state=" + t.TempDir(),
	}
}

// An invoker that stops while it has nothing to do is gone within milliseconds. Its
// last ping is sent all the same, or controllers would send it work for another
// ten seconds.
func TestIdleInvokerAnnouncesItsStop(t *testing.T) {
	bus, environ := deployment(t)
	cfg, err := config.Load(config.Input{Environ: environ, Args: []string{"--id", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	pings := make(chan []byte, 1024)
	hearing, stop := context.WithCancel(t.Context())
	ready, received := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(received)
		_ = bus.Consume(hearing, "health", func() { close(ready) }, func(m []byte) { pings <- m })
	}()
	defer func() { stop(); <-received }()
	<-ready
	for range 5 {
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- Run(ctx, Options{
				Config: cfg, Log: slog.New(slog.DiscardHandler), Host: "127.0.0.1", Engine: idleEngine{},
			})
		}()
		await(t, pings, `"isEnabled":true`)
		end()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		await(t, pings, `"isEnabled":false`)
	}
}

// await takes pings until one holds the text.
func await(t *testing.T, pings <-chan []byte, text string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case p := <-pings:
			if bytes.Contains(p, []byte(text)) {
				return
			}
		case <-late:
			t.Fatalf("no ping with %s came", text)
		}
	}
}
