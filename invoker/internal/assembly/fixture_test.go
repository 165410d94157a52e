package assembly

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// idleEngine is an engine without containers.
type idleEngine struct{ Engine }

func (idleEngine) CleanUp(context.Context, string) error { return nil }
func (idleEngine) Died() <-chan container.ID             { return nil }
func (idleEngine) Close() error                          { return nil }

// quiet is a log that keeps nothing.
var quiet = slog.New(slog.DiscardHandler)

// newBroker starts a broker that ends with the test.
func newBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Start(t.TempDir(), 0, quiet)
	check.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// joined is a client of a broker that has made the topics that a controller makes.
func joined(t *testing.T, b *broker.Broker) *broker.Bus {
	t.Helper()
	bus, err := broker.Dial([]string{b.Addr()}, quiet)
	check.NoError(t, err)
	t.Cleanup(bus.Close)
	check.NoError(t, bus.CreateTopics(t.Context(), []broker.Topic{{Name: "health", Retention: time.Hour}}))
	return bus
}

// database serves the API of CouchDB, and gives the environment by which an invoker
// finds it.
func database(t *testing.T, serve func(w http.ResponseWriter, r *http.Request)) []string {
	t.Helper()
	couch := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		serve(w, r)
	}))
	t.Cleanup(couch.Close)
	host, port, err := net.SplitHostPort(couch.Listener.Addr().String())
	check.NoError(t, err)
	return []string{"CONFIG_whisk_couchdb_protocol=http", "CONFIG_whisk_couchdb_host=" + host, "CONFIG_whisk_couchdb_port=" + port}
}

// noRows answers that a view is empty: no namespace is blocked.
func noRows(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"total_rows":0,"offset":0,"rows":[]}`)
}

// lockedDatabase refuses the login until open is called. asked receives a value for each
// request.
func lockedDatabase(t *testing.T) (environ []string, asked <-chan struct{}, open func()) {
	var opened atomic.Bool
	requests := make(chan struct{}, 100)
	environ = database(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case requests <- struct{}{}:
		default:
		}
		if opened.Load() {
			noRows(w, r)
			return
		}
		http.Error(w, `{"error":"unauthorized","reason":"Name or password is incorrect."}`, http.StatusUnauthorized)
	})
	return environ, requests, func() { opened.Store(true) }
}

// deployment is a broker with the topics that a controller makes, and a database
// without blocked namespaces, with the environment of an invoker between them.
func deployment(t *testing.T) (*broker.Bus, []string) {
	t.Helper()
	b := newBroker(t)
	return joined(t, b), append([]string{
		"KAFKA_HOSTS=" + b.Addr(), "WHISK_API_HOST_NAME=localhost", "PORT=0",
		`RUNTIMES_MANIFEST={"runtimes":{},"blackboxes":[]}`,
		"CONFIG_whisk_couchdb_username=u", "CONFIG_whisk_couchdb_password=p",
		"CONFIG_whisk_couchdb_databases_WhiskAuth=subjects", "CONFIG_whisk_couchdb_databases_WhiskEntity=whisks",
		"CONFIG_whisk_couchdb_databases_WhiskActivation=activations", "CONFIG_whisk_gpu_devices=none",
		"CONFIG_whisk_gpu_state=" + t.TempDir(),
	}, database(t, noRows)...)
}

// running is an invoker that a test started.
type running struct {
	address string
	ready   chan struct{}
	ended   chan error
	stop    context.CancelFunc
}

// start starts an invoker without containers, whose options may be changed.
func start(t *testing.T, environ []string, change ...func(*Options)) running {
	t.Helper()
	cfg, err := config.Load(config.Input{Environ: environ, Args: []string{"--id", "0"}})
	check.NoError(t, err)
	r := running{ready: make(chan struct{}), ended: make(chan error, 1)}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	t.Cleanup(r.stop)
	addr := make(chan string, 1)
	o := Options{
		Config: cfg, Log: quiet, Host: "127.0.0.1", Engine: idleEngine{},
		Listening: func(a string) { addr <- a }, Ready: func() { close(r.ready) },
	}
	for _, c := range change {
		c(&o)
	}
	go func() { r.ended <- Run(ctx, o) }()
	r.address = "http://" + <-addr
	return r
}

// end stops the invoker, which must end without an error.
func (r running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

// subscribe reads the pings until the test ends.
func subscribe(t *testing.T, bus *broker.Bus) <-chan []byte {
	t.Helper()
	pings := make(chan []byte, 1024)
	fakescheduler.Follow(t, bus, "health", func(m []byte) { pings <- m })
	return pings
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

// get requests a page.
func get(t *testing.T, address string) (int, string) {
	t.Helper()
	return request(t, http.MethodGet, address)
}

// request has the login of an operator.
func request(t *testing.T, method, address string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	check.NoError(t, err)
	req.SetBasicAuth("invoker.user", "invoker.pass")
	res, err := http.DefaultClient.Do(req)
	check.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	check.NoError(t, err)
	return res.StatusCode, string(body)
}

// awaitResponse sends requests until the response is the expected one.
func awaitResponse(t *testing.T, address string, status int, text string) {
	t.Helper()
	peertest.Until(t, address, func() string {
		if got, message := get(t, address); got != status || !strings.Contains(message, text) {
			return fmt.Sprintf("%d %q, want %d %q", got, message, status, text)
		}
		return ""
	})
}
