package docker

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// daemon is a Docker daemon of a few containers in memory. Its func fields, if
// set, come before its own answer and may take its place.
type daemon struct {
	onCreate func(w http.ResponseWriter, name string) bool
	onStart  func(w http.ResponseWriter, id string) bool
	onPull   func(w http.ResponseWriter, image string) bool
	onRemove func(w http.ResponseWriter, id string) bool
	onPause  func(w http.ResponseWriter, id string) bool
	onPing   func(r *http.Request)
	onEvents func(w http.ResponseWriter, r *http.Request) bool
	onLogs   func(w http.ResponseWriter, r *http.Request)

	onNetwork func(w http.ResponseWriter) bool // before a network is made
	gateway   string                           // of networks; empty: an address of this machine

	server *httptest.Server
	addr   string

	mu         sync.Mutex
	containers map[string]*fakeContainer // by id, which is "id-" and the name
	bodies     []api.CreateRequest
	calls      []string
	listeners  []chan string
	noIP       bool
	info       string              // of the daemon; empty: an old one
	images     map[string][]string // environment, by reference and by id
	networks   []network.Inspect
}

type fakeContainer struct {
	name, state string
	oom         bool
	code        int
	env         []string
}

func startDaemon(t testing.TB) *daemon {
	t.Helper()
	d := &daemon{containers: map[string]*fakeContainer{}, networks: []network.Inspect{defaultNetwork()}}
	// Below the range that Linux gives to clients: any connection could have
	// the port when the daemon comes back to it. Packages are tested at once: each
	// has a thousand ports of its own.
	var err error
	for range 100 {
		if err = d.listen(fmt.Sprintf("127.0.0.1:%d", 15000+rand.IntN(1000))); err == nil {
			t.Cleanup(d.down)
			return d
		}
	}
	t.Fatal(err)
	return nil
}

// listen starts to serve, at first or after down.
func (d *daemon) listen(addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	d.addr = addr
	d.server = httptest.NewUnstartedServer(d.routes())
	d.server.Listener.Close()
	d.server.Listener = listener
	d.server.Start()
	return nil
}

// down breaks all connections.
func (d *daemon) down() {
	d.mu.Lock()
	for _, l := range d.listeners {
		close(l)
	}
	d.listeners = nil
	d.mu.Unlock()
	d.server.CloseClientConnections()
	d.server.Close()
}

func (d *daemon) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/_ping", func(w http.ResponseWriter, r *http.Request) {
		if d.onPing != nil {
			d.onPing(r)
		}
		w.Header().Set("Api-Version", "1.40")
	})
	mux.HandleFunc("GET /v1.40/info", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, cmp.Or(d.info, `{"ServerVersion":"20.10","DockerRootDir":"/nowhere"}`))
	})
	mux.HandleFunc("POST /v1.40/containers/create", d.create)
	mux.HandleFunc("POST /v1.40/containers/{id}/start", d.start)
	mux.HandleFunc("POST /v1.40/containers/{id}/pause", func(w http.ResponseWriter, r *http.Request) {
		if d.onPause == nil || !d.onPause(w, r.PathValue("id")) {
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("GET /v1.40/containers/{id}/json", d.inspect)
	mux.HandleFunc("DELETE /v1.40/containers/{id}", d.remove)
	mux.HandleFunc("GET /v1.40/containers/json", d.list)
	mux.HandleFunc("GET /v1.40/containers/{id}/logs", func(w http.ResponseWriter, r *http.Request) { d.onLogs(w, r) })
	mux.HandleFunc("GET /v1.40/images/{name...}", d.inspectImage)
	mux.HandleFunc("POST /v1.40/images/create", d.pull)
	mux.HandleFunc("GET /v1.40/events", d.events)
	mux.HandleFunc("GET /v1.40/networks", d.listNetworks)
	mux.HandleFunc("GET /v1.40/networks/{name}", d.inspectNetwork)
	mux.HandleFunc("POST /v1.40/networks/create", d.createNetwork)
	mux.HandleFunc("DELETE /v1.40/networks/{id}", d.removeNetwork)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.calls = append(d.calls, r.Method+" "+r.URL.Path)
		d.mu.Unlock()
		mux.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message})
}

func (d *daemon) create(w http.ResponseWriter, r *http.Request) {
	var body api.CreateRequest
	_ = json.NewDecoder(r.Body).Decode(&body)
	name := r.URL.Query().Get("name")
	if d.onCreate != nil && d.onCreate(w, name) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bodies = append(d.bodies, body)
	d.containers["id-"+name] = &fakeContainer{name: name, state: "created", env: d.merged(body)}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"Id":"id-%s"}`, name)
}

// merged is the environment of a container as the daemon makes it: the requested variables,
// and the image's other variables.
func (d *daemon) merged(body api.CreateRequest) []string {
	env := slices.Clone(body.Env)
	for _, entry := range d.images[body.Image] {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(body.Env, func(own string) bool { return own == name || strings.HasPrefix(own, name+"=") }) {
			env = append(env, entry)
		}
	}
	return env
}

func (d *daemon) inspectImage(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimSuffix(r.PathValue("name"), "/json")
	d.mu.Lock()
	defer d.mu.Unlock()
	env, there := d.images[name]
	if !there {
		refuse(w, http.StatusNotFound, "No such image: "+name)
		return
	}
	id := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name+strings.Join(env, " "))))
	d.images[id] = env
	_ = json.NewEncoder(w).Encode(map[string]any{"Id": id, "Config": map[string]any{"Env": env}})
}

func (d *daemon) start(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if d.onStart != nil && d.onStart(w, id) {
		return
	}
	d.set(id, "running")
	w.WriteHeader(http.StatusNoContent)
}

func (d *daemon) set(id, state string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.containers[id]; c != nil {
		c.state = state
	}
}

func (d *daemon) inspect(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.containers[r.PathValue("id")]
	if c == nil {
		refuse(w, http.StatusNotFound, "No such container")
		return
	}
	ip := "172.17.0.2"
	if d.noIP {
		ip = ""
	}
	env, _ := json.Marshal(c.env)
	_, _ = fmt.Fprintf(w, `{"Id":%q,"State":{"Status":%q,"Running":%v,"OOMKilled":%v,"ExitCode":%d},"Config":{"Env":%s},"NetworkSettings":{"Networks":{"gpuwhisk":{"IPAddress":%q}}}}`,
		r.PathValue("id"), c.state, c.state == "running", c.oom, c.code, env, ip)
}

func (d *daemon) remove(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if d.onRemove != nil && d.onRemove(w, id) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, c := range d.containers {
		if key == id || c.name == id {
			delete(d.containers, key)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	refuse(w, http.StatusNotFound, "No such container: "+id)
}

func (d *daemon) list(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := []map[string]any{}
	for id, c := range d.containers {
		found = append(found, map[string]any{"Id": id, "Names": []string{"/" + c.name}, "State": c.state})
	}
	_ = json.NewEncoder(w).Encode(found)
}

func (d *daemon) pull(w http.ResponseWriter, r *http.Request) {
	image := r.URL.Query().Get("fromImage") + ":" + r.URL.Query().Get("tag")
	if d.onPull != nil && d.onPull(w, image) {
		return
	}
	_, _ = io.WriteString(w, `{"status":"pulling"}`+"\n"+`{"status":"done"}`+"\n")
}

func (d *daemon) events(w http.ResponseWriter, r *http.Request) {
	if d.onEvents != nil && d.onEvents(w, r) {
		return
	}
	listener := make(chan string, 16)
	d.mu.Lock()
	d.listeners = append(d.listeners, listener)
	d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case event, ok := <-listener:
			if !ok {
				return
			}
			_, _ = io.WriteString(w, event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// emit sends an event to every listener.
func (d *daemon) emit(action, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.listeners {
		l <- fmt.Sprintf(`{"Type":"container","Action":%q,"Actor":{"ID":%q}}`+"\n", action, id)
	}
}

func (d *daemon) names() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, c := range d.containers {
		names = append(names, c.name)
	}
	return strings.Join(names, " ")
}

func (d *daemon) count(call string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, c := range d.calls {
		if strings.HasPrefix(c, call) {
			n++
		}
	}
	return n
}

// engine connects to the daemon, waits for its event stream, and counts the
// goroutines at the end.
func (d *daemon) engine(t testing.TB, change func(*Options)) *Engine {
	t.Helper()
	before := runtime.NumGoroutine()
	options := DefaultOptions()
	options.Host = "tcp://" + d.addr
	options.Timeouts.Settle = 50 * time.Millisecond
	if change != nil {
		change(&options)
	}
	e, err := New(t.Context(), options)
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		d.down()
		sameGoroutines(t, before-1) // the server's own is gone as well
	})
	until(t, "the engine listens", d.received)
	return e
}

func (d *daemon) received() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.listeners) > 0
}

// made creates a container at a daemon that has just come back: as the invoker
// does, again where a connection from before gave way.
func made(t testing.TB, e *Engine, n int) {
	t.Helper()
	until(t, "a container is made", func() bool {
		_, err := e.Create(t.Context(), fakeSpec(n))
		if err != nil && !errors.Is(err, container.ErrAway) {
			t.Fatal(err)
		}
		return err == nil
	})
}

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); <-time.After(time.Millisecond) {
		check.That(check.Must(t), !time.Now().After(deadline), "%s: not within a minute", what)
	}
}

// created creates a container of the n-th specification.
func created(t testing.TB, e *Engine, n int) container.Handle {
	t.Helper()
	h, err := e.Create(t.Context(), fakeSpec(n))
	check.NoError(t, err)
	return h
}

func fakeSpec(n int) container.Spec {
	return container.Spec{Name: fmt.Sprintf("wsk00_%d_guest_hello", n), Image: "openwhisk/action-nodejs-v20:nightly", MemoryMB: 256, CPUShares: 128}
}

// defaultNetwork is Docker's, with packets of another size than usual.
func defaultNetwork() network.Inspect {
	return network.Inspect{Network: network.Network{
		Name: defaultBridge, ID: "bridge-id", Driver: bridgeDriver, Options: map[string]string{optionICC: "true", optionMTU: "1450"},
	}}
}

func (d *daemon) listNetworks(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = json.NewEncoder(w).Encode(d.networks)
}

func (d *daemon) inspectNetwork(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.networks {
		if n.Name == r.PathValue("name") {
			_ = json.NewEncoder(w).Encode(n)
			return
		}
	}
	refuse(w, http.StatusNotFound, "No such network: "+r.PathValue("name"))
}

// createNetwork gives a network the loopback interface as its gateway, which is an
// address of the machine that the test runs on.
func (d *daemon) createNetwork(w http.ResponseWriter, r *http.Request) {
	var body network.CreateRequest
	_ = json.NewDecoder(r.Body).Decode(&body)
	if d.onNetwork != nil && d.onNetwork(w) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.networks = append(d.networks, d.networkLike(body))
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"Id":"network-id"}`)
}

func (d *daemon) networkLike(body network.CreateRequest) network.Inspect {
	return network.Inspect{Network: network.Network{
		Name: body.Name, ID: fmt.Sprintf("network-%d", len(d.networks)), Created: time.Unix(int64(len(d.networks)), 0),
		Driver: body.Driver, EnableIPv6: body.EnableIPv6 != nil && *body.EnableIPv6, Options: body.Options, Labels: body.Labels,
		IPAM: network.IPAM{Config: []network.IPAMConfig{{
			Subnet: netip.MustParsePrefix("127.0.0.0/8"), Gateway: netip.MustParseAddr(cmp.Or(d.gateway, "127.0.0.1")),
		}}},
	}}
}

func (d *daemon) removeNetwork(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.networks = slices.DeleteFunc(d.networks, func(n network.Inspect) bool { return n.ID == r.PathValue("id") })
	w.WriteHeader(http.StatusNoContent)
}
