package harness

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/broker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// Parts selects the parts of a deployment. The zero value means classic mode on embedded
// parts, with processes as containers.
type Parts struct {
	Apache   bool     // an Apache Kafka in place of the embedded broker
	PouchDB  bool     // a pouchdb-server in place of the embedded store
	Docker   bool     // actions run in Docker containers
	Settings []string // further environment of the invokers

	// Unrecorded leaves Recording nil, because reading all acks would disturb a benchmark.
	Unrecorded bool

	// Scheduler is set for OpenWhisk's scheduler mode. It may change the settings of the
	// scheduler; see Scheduled and Patient.
	Scheduler func(*fakescheduler.Config)
	OwnEtcd   bool // the etcd belongs to the test, which may stop it
}

// Scheduled is the value of Parts.Scheduler for scheduler mode with the usual settings.
func Scheduled(*fakescheduler.Config) {}

// Patient is a value of Parts.Scheduler with which the scheduler gives up nothing because
// a machine is slow. A creation that finds no invoker for a moment counts for the namespace
// until the time of its job is over, and a queue that is at the limit and has no container
// fails its waiting activations.
func Patient(c *fakescheduler.Config) {
	c.Queue = memoryqueue.Defaults()
	c.Queue.Retention, c.Job, c.NamespaceLimit = time.Hour, time.Hour, 10000
}

// Names are the databases of a deployment.
var Names = couchdb.Names{Whisks: "whisk_local_whisks", Activations: "whisk_local_activations", Subjects: "whisk_local_subjects"}

// Manifest offers the kinds of the deployment that was captured for the replay tests.
// There the image rawproxy was configured to mark the end of an activation's output.
const Manifest = `{"runtimes":{
"nodejs":[{"kind":"nodejs:20","default":true,"image":{"prefix":"gpuwhisk","name":"action-nodejs"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],
"python":[{"kind":"python:3.11","default":true,"image":{"prefix":"gpuwhisk","name":"action-python3"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}]},
"blackboxes":[{"prefix":"openwhisk","name":"dockerskeleton"},{"prefix":"whisk","name":"rawproxy"}]}`

// Deployment is everything that an invoker needs: Kafka, a database, and in scheduler mode
// etcd and a scheduler. A test uses it as a controller does. Everything ends with the
// test.
type Deployment struct {
	T         testing.TB
	Dir       string
	Unique    string // the --uniqueName of the invokers; empty means none
	Kafka     string // address of the broker
	Broker    Broker
	Couch     string       // URL at which invokers find the database
	Store     *StoreServer // nil if the database is a pouchdb-server
	DB        Database
	Recording *Recording
	Manifest  string
	Settings  []string // further environment of the invokers
	Once      bool     // interrupted activations are not rerun
	Self      string   // the program that runs executables; empty means this one
	Log       *slog.Logger

	Revisions map[string]string // of actions, by name, for messages
	IDs       []string          // of the invoked activations
	Gate      *Gate             // the runs wait there; nil means that they do not wait

	schedulerMode // zero in classic mode
	docker        bool
	stored        map[string]Action // by name
}

// Broker is the Kafka of a deployment. It keeps its data and its address over restarts.
type Broker interface {
	Kill() error // as the loss of its machine does
	Stop() error
	Start() error
}

// Deploy starts the parts of a deployment and creates its topics and databases.
func Deploy(t testing.TB, p Parts) *Deployment {
	t.Helper()
	d := &Deployment{
		T: t, Dir: t.TempDir(), Unique: "0", Manifest: Manifest, Settings: p.Settings, Log: peertest.Log(t),
		stored: map[string]Action{}, Revisions: map[string]string{},
	}
	if p.Apache {
		peertest.Variable(t, "GPUWHISK_TEST_KAFKA", "kafka.sh")
	}
	if p.Docker {
		d.useDocker()
	}
	if p.Apache {
		k, err := peertest.NewKafka()
		check.NoError(t, err)
		t.Cleanup(func() { _ = k.Close() })
		d.Broker, d.Kafka = k, k.Addr
	} else {
		b := newEmbeddedBroker(t, d.Log)
		d.Broker, d.Kafka = b, b.Addr()
	}
	if p.PouchDB {
		d.Couch = peertest.StartPouchDB(t, 16000, storeUser, storePassword)
	} else {
		d.Store = newStoreServer(t, filepath.Join(d.Dir, "store.db"))
		d.Couch = d.Store.url()
	}
	bus, err := broker.Dial([]string{d.Kafka}, d.Log)
	check.NoError(t, err)
	defer bus.Close()
	check.NoError(t, bus.CreateTopics(t.Context(), []broker.Topic{
		{Name: "completed0", Retention: time.Hour, Large: true},
		{Name: "health", Retention: time.Hour}, {Name: "events", Retention: time.Hour},
	}))
	if !p.Unrecorded {
		d.Recording = NewRecording(t, d.Kafka, "completed0", "events")
	}
	d.DB = OpenDatabase(t, couchdb.Config{URL: d.Couch, User: storeUser, Password: storePassword, Names: Names})
	check.NoError(t, d.DB.Deploy(t.Context()))
	if p.Scheduler != nil {
		d.startScheduler(p)
	}
	return d
}

// Environment returns the environment of the invokers. Its variables are those of the
// captured invoker.
func (d *Deployment) Environment() []string {
	db, _ := url.Parse(d.Couch)
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	return append([]string{
		"KAFKA_HOSTS=" + d.Kafka,
		"RUNTIMES_MANIFEST=" + d.Manifest,
		"WHISK_API_HOST_PROTO=http", "WHISK_API_HOST_NAME=127.0.0.1", "WHISK_API_HOST_PORT=10001",
		"PORT=0",
		"CONFIG_whisk_couchdb_protocol=http",
		"CONFIG_whisk_couchdb_host=" + db.Hostname(),
		"CONFIG_whisk_couchdb_port=" + db.Port(),
		"CONFIG_whisk_couchdb_username=" + storeUser,
		"CONFIG_whisk_couchdb_password=" + storePassword,
		"CONFIG_whisk_couchdb_databases_WhiskAuth=" + Names.Subjects,
		"CONFIG_whisk_couchdb_databases_WhiskEntity=" + Names.Whisks,
		"CONFIG_whisk_couchdb_databases_WhiskActivation=" + Names.Activations,
		"CONFIG_whisk_containerPool_userMemory=2048m",
		"CONFIG_whisk_concurrencyLimit_max=500",
		"CONFIG_whisk_containerFactory_containerArgs_extraEnvVars_0=__OW_ALLOW_CONCURRENT=true",
		"CONFIG_whisk_userEvents_enabled=true",
		"CONFIG_whisk_parameterStorage_aes256=" + key,
		"CONFIG_whisk_runtimes_bypassPullForLocalImages=true",
		"CONFIG_whisk_gpu_runtime=process",
		"CONFIG_whisk_gpu_process_dir=" + filepath.Join(d.Dir, "processes"),
		"CONFIG_whisk_gpu_state=" + filepath.Join(d.Dir, "state"),
		"CONFIG_whisk_invoker_rerun=" + strconv.FormatBool(!d.Once),
		// Nothing may be lost to a machine that has much else to do.
		"CONFIG_whisk_gpu_flushDeadline=1 minute",
	}, d.Settings...)
}

// Args returns the arguments of the invoker with a number.
func (d *Deployment) Args(id int) []string {
	args := []string{"--id", strconv.Itoa(id)}
	if d.Unique != "" {
		args = append(args, "--uniqueName", d.Unique)
	}
	return args
}

// useDocker has the actions run in Docker containers. Without a daemon the test is skipped.
func (d *Deployment) useDocker() {
	t := d.T
	t.Helper()
	host := peertest.NeedDocker(t)
	tag, err := peertest.Images()
	check.NoError(t, err, "build the action images")
	d.docker = true
	// Invokers of one daemon must not remove each other's containers.
	d.Unique = fmt.Sprintf("d%dx%dx", os.Getpid(), deployments.Add(1))
	for _, name := range []string{"action-nodejs", "action-python3"} {
		d.Manifest = strings.ReplaceAll(d.Manifest, `"name":"`+name+`"`, `"name":"`+name+`","tag":"`+tag+`"`)
	}
	root := peertest.Docker(t, "info", "--format", "{{.DockerRootDir}}")
	d.Settings = append(d.Settings, "CONFIG_whisk_gpu_runtime=docker", "DOCKER_HOST="+host,
		"CONFIG_whisk_gpu_docker_logDirs_0="+filepath.Join(root, "containers"))
}

// Containers lists the containers of invoker 0, running or not.
func (d *Deployment) Containers() (all []string) {
	if d.docker {
		return strings.Fields(peertest.Docker(d.T, "ps", "--all", "--quiet", "--filter", "name=wsk"+d.Unique+"0_"))
	}
	found, _ := filepath.Glob(filepath.Join(d.Dir, "processes", "*", "containers", "*"))
	return found
}

// Publish sends messages to invoker 0 as a controller does.
func (d *Deployment) Publish(messages ...[]byte) {
	d.T.Helper()
	d.Recording.Publish(d.T, "invoker0", messages...)
}

// Put stores an action, or updates it.
func (d *Deployment) Put(a Action) (revision string) {
	d.T.Helper()
	d.stored[a.Name] = a
	a.Updates = d.Revisions[a.Name]
	revision = d.DB.StoreAction(d.T, a)
	d.Revisions[a.Name] = revision
	return revision
}

// Message returns the message of the next activation of an action. Its parameters are its
// number n and the URL of the gate, in addition to the given parameters.
func (d *Deployment) Message(m Message) []byte {
	d.T.Helper()
	n := len(d.IDs) + 1
	m.ID, m.Revision, m.Version = fmt.Sprintf("%032x", n), d.Revisions[m.Action], d.stored[m.Action].Version
	d.IDs = append(d.IDs, m.ID)
	content := map[string]any{"n": n}
	if d.Gate != nil {
		content["url"] = d.Gate.URL + "/" + m.ID
	}
	maps.Copy(content, m.Content)
	m.Content = content
	return m.Text(d.T)
}

// Invoke sends n activations of an action. In scheduler mode the scheduler receives
// them.
func (d *Deployment) Invoke(n int, m Message) (ids []string) {
	d.T.Helper()
	first, topic := len(d.IDs), "invoker0"
	if d.Scheduler != nil {
		topic = "scheduler" + cmp.Or(d.Config.ID, "0")
		check.NoError(d.T, d.Scheduler.CreateQueue(d.T.Context(), d.Function(m.Action)))
	}
	var messages [][]byte
	for range n {
		messages = append(messages, d.Message(m))
	}
	d.Recording.Publish(d.T, topic, messages...)
	return d.IDs[first:]
}

// AwaitSlot blocks until each activation has an ack that frees its slot at the controller.
func (d *Deployment) AwaitSlot(ids ...string) {
	d.T.Helper()
	d.Recording.AwaitCompleted(ids...)
}

// StoredRecord returns the record of an activation, or nil if there is none.
func (d *Deployment) StoredRecord(id string) []byte {
	d.T.Helper()
	return d.DB.StoredRecord(d.T, id)
}
