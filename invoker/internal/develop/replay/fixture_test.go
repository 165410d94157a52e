package replay

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/store"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// names are those of the captured deployment.
var names = couchdb.Names{Whisks: "whisk_local_whisks", Activations: "whisk_local_activations", Subjects: "whisk_local_subjects"}

// fixture is the environment of an invoker: a broker and a database with the data of a
// deployment and a controller. Everything ends with the test.
type fixture struct {
	t         *testing.T
	dir       string
	unique    string // the invoker's --uniqueName
	kafka     string // where the broker is
	couch     string // where the invoker finds the database
	broker    *broker.Broker
	apache    *peertest.Kafka // in the broker's place
	recording *harness.Recording
	db        harness.Database
	store     *storeServer
	extra     []string          // further environment
	once      bool              // interrupted activations are not rerun
	left      func() []string   // remaining containers
	revs      map[string]string // of the actions that were put
	ids       []string          // of the activations that were invoked
	gate      *gate             // at which their runs wait; nil: at none

	manifest string
	images   *strings.Replacer // of the captured documents
	self     string            // the program that runs executables
	log      *slog.Logger
}

// newFixture has our own broker and database.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	return deployed(t, (*fixture).startBroker, (*fixture).startStore)
}

// apacheFixture has an Apache Kafka of its own, and the database that start starts.
func apacheFixture(t *testing.T, start func(*fixture)) *fixture {
	t.Helper()
	return deployed(t, func(w *fixture) {
		var err error
		w.apache, err = peertest.NewKafka()
		check.NoError(t, err)
		t.Cleanup(func() { _ = w.apache.Close() })
		w.kafka = w.apache.Addr
	}, start)
}

// deployed starts the broker and the database of a fixture, and creates its deployment there.
func deployed(t *testing.T, startBroker, startDatabase func(*fixture)) *fixture {
	t.Helper()
	w := &fixture{
		t: t, dir: t.TempDir(), unique: "0", log: peertest.Log(t),
		manifest: manifest, images: strings.NewReplacer(), revs: map[string]string{},
	}
	w.left = w.processes
	startBroker(w)
	startDatabase(w)
	w.deploy()
	return w
}

// deploy creates a deployment's topics and documents in the broker and the database.
func (w *fixture) deploy() {
	t := w.t
	t.Helper()
	bus, err := broker.Dial([]string{w.kafka}, w.log)
	check.NoError(t, err)
	defer bus.Close()
	check.NoError(t, bus.CreateTopics(t.Context(), []broker.Topic{
		{Name: "completed0", Retention: time.Hour, Large: true},
		{Name: "health", Retention: time.Hour}, {Name: "events", Retention: time.Hour},
	}))
	w.recording = harness.NewRecording(t, w.kafka, "completed0", "events")
	w.db = harness.OpenDatabase(t, couchdb.Config{URL: w.couch, User: storeUser, Password: storePassword, Names: names})
	check.NoError(t, w.db.Deploy(t.Context()))
}

func (w *fixture) startStore() {
	w.t.Helper()
	w.store = newStoreServer(w.t, filepath.Join(w.dir, "store.db"))
	w.couch = w.store.url()
}

// startBroker starts a broker, or starts it again with its data and its
// address.
func (w *fixture) startBroker() {
	w.t.Helper()
	start := func(port int) error {
		b, err := broker.Start(filepath.Join(w.dir, "kafka"), port, w.log)
		if err == nil {
			w.broker = b
		}
		return err
	}
	if w.broker != nil {
		check.NoError(w.t, start(w.broker.Port()))
		return
	}
	peertest.OnFreePort(w.t, 16000, start)
	w.kafka = w.broker.Addr()
	w.t.Cleanup(func() { w.broker.Close() }) // the last broker, after any restarts
}

// The user of the store.
const storeUser, storePassword = "replay", "not secret"

// storeServer is the database behind a listener that tests can close.
type storeServer struct {
	t      *testing.T
	store  *store.Store
	addr   string
	server *http.Server
	served atomic.Pointer[func(*http.Request)] // called after each request
}

func newStoreServer(t *testing.T, path string) *storeServer {
	t.Helper()
	st, err := store.Open(store.Config{Path: path, User: storeUser, Password: storePassword})
	check.NoError(t, err)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &storeServer{t: t, store: st}
	peertest.OnFreePort(t, 16000, func(port int) error {
		s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		return s.listen()
	})
	t.Cleanup(s.shut)
	return s
}

func (s *storeServer) url() string { return "http://" + s.addr }

// open serves, at the address of the last time.
func (s *storeServer) open() {
	s.t.Helper()
	check.NoError(s.t, s.listen())
}

func (s *storeServer) listen() error {
	ln, err := net.Listen("tcp", s.addr)
	if err != nil {
		return err
	}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	go func(server *http.Server) { _ = server.Serve(ln) }(s.server)
	return nil
}

// shut closes every connection and the listener.
func (s *storeServer) shut() { _ = s.server.Close() }

func (s *storeServer) serve(w http.ResponseWriter, r *http.Request) {
	s.store.ServeHTTP(w, r)
	if reported := s.served.Load(); reported != nil {
		(*reported)(r)
	}
}

// manifest offers the kinds of the captured deployment. There the image rawproxy was
// configured to mark the end of an activation's output.
const manifest = `{"runtimes":{
"nodejs":[{"kind":"nodejs:20","default":true,"image":{"prefix":"gpuwhisk","name":"action-nodejs"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],
"python":[{"kind":"python:3.11","default":true,"image":{"prefix":"gpuwhisk","name":"action-python3"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}]},
"blackboxes":[{"prefix":"openwhisk","name":"dockerskeleton"},{"prefix":"whisk","name":"rawproxy"}]}`

// environment returns the relevant variables of the captured invoker.
func (w *fixture) environment() []string {
	db, _ := url.Parse(w.couch)
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	return append([]string{
		"KAFKA_HOSTS=" + w.kafka,
		"RUNTIMES_MANIFEST=" + w.manifest,
		"WHISK_API_HOST_PROTO=http", "WHISK_API_HOST_NAME=127.0.0.1", "WHISK_API_HOST_PORT=10001",
		"PORT=0",
		"CONFIG_whisk_couchdb_protocol=http",
		"CONFIG_whisk_couchdb_host=" + db.Hostname(),
		"CONFIG_whisk_couchdb_port=" + db.Port(),
		"CONFIG_whisk_couchdb_username=" + storeUser,
		"CONFIG_whisk_couchdb_password=" + storePassword,
		"CONFIG_whisk_couchdb_databases_WhiskAuth=" + names.Subjects,
		"CONFIG_whisk_couchdb_databases_WhiskEntity=" + names.Whisks,
		"CONFIG_whisk_couchdb_databases_WhiskActivation=" + names.Activations,
		"CONFIG_whisk_containerPool_userMemory=2048m",
		"CONFIG_whisk_concurrencyLimit_max=500",
		"CONFIG_whisk_containerFactory_containerArgs_extraEnvVars_0=__OW_ALLOW_CONCURRENT=true",
		"CONFIG_whisk_userEvents_enabled=true",
		"CONFIG_whisk_parameterStorage_aes256=" + key,
		"CONFIG_whisk_runtimes_bypassPullForLocalImages=true",
		"CONFIG_whisk_gpu_runtime=process",
		"CONFIG_whisk_gpu_process_dir=" + filepath.Join(w.dir, "processes"),
		"CONFIG_whisk_gpu_state=" + filepath.Join(w.dir, "state"),
		"CONFIG_whisk_invoker_rerun=" + strconv.FormatBool(!w.once),
		// Nothing may be lost to a machine that has much else to do.
		"CONFIG_whisk_gpu_flushDeadline=1 minute",
	}, w.extra...)
}

func (w *fixture) args(id int) []string {
	return []string{"--id", strconv.Itoa(id), "--uniqueName", w.unique}
}

// running is an invoker in this process.
type running struct {
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
	slow  bool // it gave up waiting for the removal of its containers, as it does after 30 s
}

// start runs an invoker until it is ready.
func (w *fixture) start() *running {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	r, ready := &running{t: w.t, stop: cancel, ended: make(chan error, 1)}, make(chan struct{})
	local := harness.Local{Options: assembly.Options{Log: w.log, Self: w.self, Ready: func() { close(ready) }}}
	wait, err := local.Start(ctx, w.environment(), w.args(0))
	check.NoError(w.t, err)
	go func() { r.ended <- wait() }()
	select {
	case <-ready:
	case err := <-r.ended:
		w.t.Fatalf("the invoker ended at its start: %v", err)
	case <-time.After(peertest.WaitLimit):
		w.t.Fatal("the invoker is not ready")
	}
	return r
}

// end stops the invoker as SIGTERM does and waits for its end.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	stuck, late := time.After(20*time.Second), time.After(peertest.WaitLimit)
	for {
		select {
		case err := <-r.ended:
			if r.slow = harness.RemovesSlowly(err); err != nil && !r.slow {
				r.t.Errorf("the invoker ended with %v", err)
			}
			return
		case <-stuck: // here, because its log belongs to the test
			r.explain()
		case <-late:
			r.t.Fatal("the invoker does not end")
		}
	}
}

// explain logs the state of every goroutine if an invoker does not end.
func (r *running) explain() {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	seen, _ := exec.Command("docker", "ps", "--all", "--no-trunc").CombinedOutput()
	r.t.Logf("the invoker has not ended for 20 s:\n%s\n%s", seen, stacks)
}

// publish sends messages to the invoker as a controller does.
func (w *fixture) publish(messages ...[]byte) {
	w.t.Helper()
	w.recording.Publish(w.t, "invoker0", messages...)
}

// put stores an action.
func (w *fixture) put(a harness.Action) (rev string) {
	w.t.Helper()
	rev = w.db.StoreAction(w.t, a)
	w.revs[a.Name] = rev
	return rev
}

// message returns the next activation of a stored action. Its parameters are its number
// n and the url of the gate, in addition to the given ones.
func (w *fixture) message(m harness.Message) []byte {
	w.t.Helper()
	n := len(w.ids) + 1
	m.ID, m.Revision = fmt.Sprintf("%032x", n), w.revs[m.Action]
	w.ids = append(w.ids, m.ID)
	content := map[string]any{"n": n}
	if w.gate != nil {
		content["url"] = w.gate.url + "/" + m.ID
	}
	maps.Copy(content, m.Content)
	m.Content = content
	return m.Text(w.t)
}

// invoke sends n activations of an action that was put.
func (w *fixture) invoke(n int, m harness.Message) (ids []string) {
	w.t.Helper()
	first := len(w.ids)
	var messages [][]byte
	for range n {
		messages = append(messages, w.message(m))
	}
	w.publish(messages...)
	return w.ids[first:]
}

// awaitSlot waits for the acks by which a controller takes activations' slots as free
// again.
func (w *fixture) awaitSlot(ids ...string) {
	w.t.Helper()
	w.recording.AwaitCompleted(ids...)
}

// record reads an activation record, nil when there is none.
func (w *fixture) record(id string) []byte {
	w.t.Helper()
	return w.db.StoredRecord(w.t, id)
}

// answer is the part of a record about an activation's end.
type answer struct {
	StatusCode int
	Result     struct {
		N, Runs         int
		Intact, Correct bool
		Error           string
	}
}

// answer reads that of an activation which has a record.
func (w *fixture) answer(id string) (answer, error) {
	w.t.Helper()
	var r struct{ Response answer }
	err := json.Unmarshal(w.record(id), &r)
	return r.Response, err
}

// processes are the containers that the process engine has not taken away.
func (w *fixture) processes() []string {
	entries, err := os.ReadDir(filepath.Join(w.dir, "processes"))
	if err != nil {
		return nil
	}
	var all []string
	for _, e := range entries {
		containers, _ := os.ReadDir(filepath.Join(w.dir, "processes", e.Name(), "containers"))
		for _, c := range containers {
			all = append(all, fmt.Sprintf("%s/%s", e.Name(), c.Name()))
		}
	}
	return all
}
