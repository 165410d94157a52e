package assembly_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestFloodOfRequestsAddsNoSeries: a client makes up methods, paths, queries, logins, hosts
// and transaction ids. None of them becomes a metric's name or label.
func TestFloodOfRequestsAddsNoSeries(t *testing.T) {
	f := newClassic(t, "CONFIG_whisk_metrics_prometheusEnabled=true", "CONFIG_whisk_metrics_kamonEnabled=true")
	r := f.start()
	methods := []string{"HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"}
	flood := func(from, to int) {
		for i := from; i < to; i++ {
			for _, method := range []string{methods[i%len(methods)], fmt.Sprint("MADEUP", i), fmt.Sprint("get", i), "G!" + fmt.Sprint(i)} {
				req, err := http.NewRequestWithContext(t.Context(), method, r.Admin.URL, nil)
				check.NoError(t, err)
				req.URL.Path, req.URL.RawQuery = fmt.Sprintf("/ns%d/actions/a%d", i, i), fmt.Sprint("q=", i)
				req.Host = fmt.Sprint("127.0.0.1:", i+1)
				req.SetBasicAuth(fmt.Sprint("user", i), "x")
				req.Header.Set("X-Request-ID", fmt.Sprint("id", i))
				res, err := http.DefaultClient.Do(req)
				check.NoError(t, err)
				_ = res.Body.Close()
			}
		}
	}
	series := func() int {
		status, text := r.Admin.Request(t, http.MethodGet, "/metrics")
		check.Equal(t, status, http.StatusOK)
		for _, made := range []string{"MADEUP", "madeup", "get1", "ns1", "user1", "q=1"} {
			check.That(t, !strings.Contains(text, made), "/metrics has %s", made)
		}
		return strings.Count(text, "\n")
	}
	flood(0, len(methods))
	series()
	before := series() // with that of reading the metrics itself
	flood(len(methods), 500)
	check.AtMost(t, series(), before, "lines at /metrics after 2,000 requests")
	r.End()
}

// While Kafka is away /ping fails; when Kafka is back it succeeds by itself.
func TestPingFailsWhileKafkaIsAway(t *testing.T) {
	f := newClassic(t)
	r := f.Start(0, f.engine.into, silence(time.Millisecond))
	awaitPing(t, r, http.StatusOK, "pong")
	check.NoError(t, f.Broker.Kill())
	awaitPing(t, r, http.StatusServiceUnavailable, "cannot work: Kafka: ")
	check.NoError(t, f.Broker.Start())
	awaitPing(t, r, http.StatusOK, "pong")
	r.End()
}

// Without the health topic controllers receive no ping. /ping then fails at once, with a status
// that readiness probes take for "not ready", and succeeds after the topic is made.
func TestPingFailsWithoutTheHealthTopic(t *testing.T) {
	f := newClassic(t)
	b, err := broker.Start(t.TempDir(), 0, f.Log) // in place of the deployment's, which has the topic
	check.NoError(t, err)
	defer b.Close()
	f.Kafka = b.Addr()
	bus := f.dial()
	r := f.start()
	awaitPing(t, r, http.StatusServiceUnavailable, "cannot work: Kafka: controllers receive no ping")
	check.NoError(t, bus.CreateTopics(t.Context(), []broker.Topic{{Name: "health", Retention: time.Hour}}))
	awaitPing(t, r, http.StatusOK, "pong")
	r.End()
}

// TestOperatorSwitchesPings: POST /disable and /enable reach the controllers.
func TestOperatorSwitchesPings(t *testing.T) {
	f := newClassic(t)
	pings := f.pings()
	r := f.start()
	await(t, pings, `"isEnabled":true`)
	awaitPing(t, r, http.StatusOK, "pong") // the first ping may leave a moment before
	for _, s := range []struct{ path, want, ping string }{
		{"/disable", " is now disabled.", `"isEnabled":false`},
		{"/disable", " is already disabled.", ""},
		{"/enable", " is now enabled.", `"isEnabled":true`},
		{"/enable", " is already enabled.", `"isEnabled":true`},
	} {
		if body := post(t, r, s.path); !strings.HasSuffix(body, s.want) {
			t.Errorf("%s: %q; want %q", s.path, body, s.want)
		}
		if s.ping != "" {
			await(t, pings, s.ping)
		}
	}
	r.End()
	await(t, pings, `"isEnabled":false`)
}

// TestDisabledBeforeItIsReady: an invoker that is disabled while it starts stays
// disabled, and begins when it is enabled.
func TestDisabledBeforeItIsReady(t *testing.T) {
	f := newClassic(t)
	_, open := f.lockDatabase()
	pings := f.pings()
	r := f.Begin(0, f.engine.into)
	for _, want := range []string{"invoker0 is now disabled.", "invoker0 is already disabled."} {
		if got := post(t, r, "/disable"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	open()
	<-r.Ready
	if ping := <-pings; !bytes.Contains(ping, []byte(`"isEnabled":false`)) {
		t.Errorf("the first ping is %s", ping)
	}
	if got := post(t, r, "/enable"); got != "invoker0 is now enabled." {
		t.Error(got)
	}
	await(t, pings, `"isEnabled":true`)
	r.End()
}

// post sends a request, and returns the answer.
func post(t *testing.T, r *harness.Running, path string) string {
	t.Helper()
	_, body := r.Admin.Request(t, http.MethodPost, path)
	return body
}

// The next of two processes with one id waits until the previous one has ended and
// reports that at /ping: on the same host it waits for the lock, on another for the
// pings to end.
func TestNextProcessWaitsForThePrevious(t *testing.T) {
	for _, host := range []struct{ name, want string }{
		{"same", "another process on this host"}, {"other", "waiting for another process with the same id"},
	} {
		t.Run(host.name, func(t *testing.T) {
			f := newClassic(t)
			pings := f.pings()
			previous := f.Start(0, f.engine.into, silence(time.Minute))
			await(t, pings, `"isEnabled":true`)
			if host.name == "other" {
				f.Settings = append(f.Settings, "CONFIG_whisk_gpu_state="+t.TempDir())
			}
			next := f.Begin(0, f.engine.into, silence(time.Minute))
			awaitPing(t, next, http.StatusServiceUnavailable, host.want)
			select {
			case <-next.Ready:
				t.Error("started beside the previous one")
			default:
				next.CheckRuns()
			}
			previous.End()
			<-next.Ready
			next.End()
		})
	}
}

// An invoker that the database refuses is not ready, reports that at /ping and sends
// no ping; it is ready as soon as the database accepts it.
func TestNotReadyWithoutTheDatabase(t *testing.T) {
	f := newClassic(t)
	asked, open := f.lockDatabase()
	pings := f.pings()
	r := f.Begin(0, f.engine.into)
	for range 6 {
		<-asked
	}
	status, message := r.Admin.Request(t, http.MethodGet, "/ping")
	check.Equal(t, status, http.StatusServiceUnavailable, "refused: %q", message)
	check.Contains(t, message, "CouchDB")
	check.Equal(t, len(pings), 0)
	open()
	await(t, pings, `"isEnabled":true`)
	<-r.Ready
	status, message = r.Admin.Request(t, http.MethodGet, "/ping")
	check.Equal(t, status, http.StatusOK, "accepted: %q", message)
	r.End()
}

// An invoker that stops while it has nothing to do is gone within milliseconds. Its
// last ping is sent all the same, or controllers would send it work for another
// ten seconds.
func TestIdleInvokerAnnouncesItsStop(t *testing.T) {
	f := newClassic(t)
	pings := f.pings()
	for range 5 {
		r := f.start()
		await(t, pings, `"isEnabled":true`)
		r.End()
		await(t, pings, `"isEnabled":false`)
	}
}

// An invoker that starts while the Docker daemon is away is not ready, reports that
// at /ping and goes on with its start as soon as the daemon answers.
func TestStartWaitsForTheEngine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker.sock")
	f := newClassic(t, "CONFIG_whisk_gpu_runtime=docker", "CONFIG_whisk_gpu_docker_host=unix://"+socket)
	r := f.Begin(0)
	awaitPing(t, r, http.StatusServiceUnavailable, "container engine is away")
	r.CheckRuns()
	listener, err := net.Listen("unix", socket)
	check.NoError(t, err)
	daemon := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(idleDaemon)}}
	daemon.Start()
	defer daemon.Close()
	<-r.Ready
	awaitPing(t, r, http.StatusOK, "pong")
	r.Stop()
	daemon.CloseClientConnections() // the stream of events
	r.End()
}

// idleDaemon serves Docker's API for a host without containers.
func idleDaemon(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.44")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/events"):
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, "/containers/json"):
		_, _ = w.Write([]byte(`[]`))
	case strings.HasSuffix(r.URL.Path, "/networks"):
		_, _ = w.Write([]byte(`[{"Name":"gpuwhisk","Driver":"bridge","Options":{"com.docker.network.bridge.enable_icc":"false"},
			"IPAM":{"Config":[{"Subnet":"127.0.0.0/8","Gateway":"127.0.0.1"}]}}]`))
	case strings.HasSuffix(r.URL.Path, "/info"):
		_, _ = w.Write([]byte(`{"NCPU":2,"ServerVersion":"test","OSType":"linux"}`))
	default:
		_, _ = w.Write([]byte(`{}`))
	}
}

// newClassic is a deployment in classic mode with an engine whose containers are servers of
// this process.
func newClassic(t *testing.T, more ...string) *whole {
	t.Helper()
	f := &whole{Deployment: harness.Deploy(t, harness.Parts{Settings: more}), engine: newProxies(t)}
	f.Unique = ""
	return f
}

func silence(d time.Duration) func(*assembly.Options) {
	return func(o *assembly.Options) { o.SetSilence(d) }
}

// dial returns a client of the broker.
func (f *whole) dial() *broker.Bus {
	f.T.Helper()
	bus, err := broker.Dial([]string{f.Kafka}, f.Log)
	check.NoError(f.T, err)
	f.T.Cleanup(bus.Close)
	return bus
}

// pings returns the pings of invokers until the end of the test.
func (f *whole) pings() <-chan []byte {
	f.T.Helper()
	pings := make(chan []byte, 1024)
	fakescheduler.Follow(f.T, f.dial(), "health", func(m []byte) { pings <- m })
	return pings
}

// await takes pings until one has the text.
func await(t *testing.T, pings <-chan []byte, text string) {
	t.Helper()
	for !bytes.Contains(check.Receive(t, pings, "a ping with %s", text), []byte(text)) {
	}
}

// awaitPing requests the page /ping until the response is the expected one.
func awaitPing(t *testing.T, r *harness.Running, status int, text string) {
	t.Helper()
	peertest.Until(t, "/ping", func() string {
		if got, message := r.Admin.Request(t, http.MethodGet, "/ping"); got != status || !strings.Contains(message, text) {
			return fmt.Sprintf("%d %q, want %d %q", got, message, status, text)
		}
		return ""
	})
}

// lockDatabase has the database refuse the login until open is called. asked receives a
// value for a refused request.
func (f *whole) lockDatabase() (asked <-chan struct{}, open func()) {
	faults, requests := &harness.Faults{}, make(chan struct{}, 100)
	faults.Strike("", harness.Always, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		select {
		case requests <- struct{}{}:
		default:
		}
		harness.AnswerStatus(http.StatusUnauthorized)(w, r, next)
	})
	f.Couch = harness.Proxy(f.T, f.Couch, faults.Wrap)
	return requests, faults.Clear
}
