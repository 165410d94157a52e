package replay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// scheduled is a deployment in OpenWhisk's scheduler mode: an Apache Kafka and an etcd
// of its own, the scheduler for tests, and invokers that are the program as it ships.
type scheduled struct {
	*fixture
	etcd      *peertest.Etcd
	client    *fakescheduler.Keys
	scheduler *fakescheduler.Scheduler
	ids       []string // of the activations that have a record in the end
}

const cluster = activation.Cluster("whisk")

// newScheduled turns a fixture's mode.
func newScheduled(w *fixture) *scheduled {
	t := w.t
	t.Helper()
	s := &scheduled{fixture: w, etcd: peertest.NewEtcd(t)}
	// As the role of OpenWhisk's deployment adds to an invoker's environment.
	w.extra = append(w.extra, "CONFIG_whisk_etcd_hosts="+s.etcd.Addr, "CONFIG_whisk_etcd_lease_timeout=10", "CONFIG_whisk_etcd_pool_threads=10",
		"CONFIG_whisk_scheduler_dataManagementService_retryInterval=1 second", "CONFIG_whisk_invoker_containerCreation_maxPeek=500",
		"CONFIG_whisk_spi_InvokerProvider=org.apache.openwhisk.core.invoker.FPCInvokerReactive",
		"CONFIG_whisk_spi_InvokerServerProvider=org.apache.openwhisk.core.invoker.FPCInvokerServer",
		"CONFIG_whisk_cluster_name="+string(cluster), "CONFIG_whisk_memory_max=2048m", "CONFIG_whisk_gpu_devices=none")
	s.client = fakescheduler.OpenKeys(t, s.etcd.Addr, cluster)
	runtimes, err := activation.ParseManifest([]byte(w.manifest), activation.ManifestOptions{})
	check.NoError(t, err)
	s.scheduler, err = fakescheduler.New(fakescheduler.Config{
		Cluster: cluster, Etcd: s.etcd.Addr, Kafka: w.kafka, Manifest: runtimes, Log: w.log,
		Lease: 10 * time.Minute, // it outlives the stops of etcd
	})
	check.NoError(t, err)
	t.Cleanup(s.scheduler.Kill)
	return s
}

// at is the same deployment seen from a subtest.
func (s *scheduled) at(t *testing.T, do func(*scheduled)) {
	whole := s.t
	s.t = t
	defer func() { s.t = whole }()
	do(s)
}

// shipped is the program as it ships, with arguments and further environment.
func (s *scheduled) shipped(extra []string, args ...string) *exec.Cmd {
	s.t.Helper()
	program, err := peertest.Program("../../../cmd/gpuwhisk")
	check.NoError(s.t, err)
	cmd := exec.Command(program, args...)
	cmd.Env = slices.Concat(s.environment(), harness.UnitEnvironment(s.t), []string{"PATH=" + os.Getenv("PATH")}, extra)
	return cmd
}

// ship starts an invoker, and returns when schedulers see that it is up.
func (s *scheduled) ship(id int, extra ...string) *harness.Process {
	s.t.Helper()
	port := strconv.Itoa(peertest.FreePort(s.t, 16000))
	p := harness.Launch(s.t, s.shipped(append(extra, "PORT="+port), append([]string{"invoker"}, s.args(id)...)...))
	p.Admin.URL = "http://127.0.0.1:" + port
	s.up(id, p)
	return p
}

func (s *scheduled) up(id int, p *harness.Process) {
	s.t.Helper()
	s.until("the invoker is up", func() string {
		select {
		case <-p.Ended:
			s.t.Fatalf("the invoker ended: %v\n%s", p.Err, p.Output.String())
		default:
		}
		if h, _ := s.health(id); h.Status != activation.Up {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
}

func (s *scheduled) until(what string, whyNot func() string) {
	s.t.Helper()
	peertest.Until(s.t, what, whyNot)
}

// keys returns the keys in etcd below a part of the cluster, with their leases.
func (s *scheduled) keys(below string) (leases map[string]clientv3.LeaseID) {
	s.t.Helper()
	return s.client.Below(s.t, below)
}

// none waits until there is no key below a part of the cluster.
func (s *scheduled) none(below string) {
	s.t.Helper()
	s.until("no keys "+below, func() string {
		if keys := s.keys(below); len(keys) > 0 {
			return fmt.Sprint(keys)
		}
		return ""
	})
}

// health is an invoker's record, and the lease that it hangs on.
func (s *scheduled) health(id int) (activation.Health, clientv3.LeaseID) {
	s.t.Helper()
	return s.client.Health(s.t, activation.Instance{ID: id, UniqueName: s.unique})
}

// counter says how often its container has run it, after so many milliseconds.
func counter(name string, change ...func(*harness.Action)) harness.Action {
	a := harness.Action{Name: name, Kind: "nodejs:20", Timeout: 5 * time.Minute,
		Code: "let n = 0; function main(p) { return new Promise(done => setTimeout(() => done({n: ++n}), p.ms)); }"}
	for _, do := range change {
		do(&a)
	}
	return a
}

// function stores an action, and returns it as a scheduler knows it.
func (s *scheduled) function(a harness.Action) fakescheduler.Function {
	s.t.Helper()
	return s.unstored(a, s.put(a))
}

// unstored is a function of a revision that nothing has stored.
func (s *scheduled) unstored(a harness.Action, revision string) fakescheduler.Function {
	a.Code = ""
	return fakescheduler.Function{
		Queue:    activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: a.Name, Version: "0.0.1"}, revision),
		MetaData: activation.NewActionMetaData(a.Document(s.t)),
	}
}

// invoke sends so many activations of a function to the scheduler.
func (s *scheduled) invoke(of fakescheduler.Function, n int, content map[string]any) (ids []string) {
	s.t.Helper()
	ids = s.attempt(of, n, content)
	s.ids = append(s.ids, ids...)
	return ids
}

// made numbers activations, in all deployments of the process.
var made atomic.Int64

// attempt is invoke for activations that end without a record, because schedulers for
// tests write none.
func (s *scheduled) attempt(of fakescheduler.Function, n int, content map[string]any) (ids []string) {
	s.t.Helper()
	check.NoError(s.t, s.scheduler.CreateQueue(s.t.Context(), of))
	if content == nil {
		content = map[string]any{"ms": 0}
	}
	for range n {
		id := fmt.Sprintf("%032x", made.Add(1))
		m := harness.Message{ID: id, Action: of.Queue.Action.Name, Revision: of.Queue.Revision, Content: content}
		s.recording.Publish(s.t, "scheduler0", m.Text(s.t))
		ids = append(ids, id)
	}
	return ids
}

// settled waits for the completions and the records.
func (s *scheduled) settled(ids []string) {
	s.t.Helper()
	for _, id := range ids {
		s.awaitSlot(id)
	}
	seen, _ := s.scheduler.Seen()
	for _, f := range seen.Failures {
		check.That(check.Must(s.t), !slices.Contains(ids, string(f.Activation)), "the scheduler gave up %+v", f)
	}
	s.awaitRecords(ids)
}

// once invokes a function, and gives its result.
func (s *scheduled) once(of fakescheduler.Function) string {
	s.t.Helper()
	ids := s.invoke(of, 1, nil)
	s.settled(ids)
	return string(s.db.AwaitRecord(s.t, activation.ID(ids[0])).Response.Result)
}

// creations returns the creations that were sent for a function.
func (s *scheduled) creations(of fakescheduler.Function) (all []fakescheduler.Creation) {
	seen, _ := s.scheduler.Seen()
	for _, c := range seen.Creations {
		if c.Queue.Action.Name == of.Queue.Action.Name {
			all = append(all, c)
		}
	}
	return all
}

// fetched is how many activations went to invokers.
func (s *scheduled) fetched() int {
	seen, _ := s.scheduler.Seen()
	return seen.Fetches[activation.Fetched]
}

// check demands, of invokers that have ended, a completion of each activation, or up to
// so many, and a record, no key, and that the scheduler could read all that it got.
func (s *scheduled) check(most int) {
	s.t.Helper()
	completions := map[string]int{}
	for _, r := range s.recording.ToTheEnd() {
		if r.FreesSlot() {
			completions[r.ActivationID()]++
		}
	}
	for i, id := range s.ids {
		check.AtLeast(s.t, completions[id], 1, "activation %d of %d", i+1, len(s.ids))
		check.AtMost(s.t, completions[id], most, "activation %d of %d", i+1, len(s.ids))
		check.That(s.t, s.record(id) != nil, "activation %d of %d", i+1, len(s.ids))
	}
	s.none("invokers/")
	s.none("namespace/")
	s.none("warmed/")
	seen, _ := s.scheduler.Seen()
	check.AtMost(s.t, seen.Unparsed, 0, "messages that the scheduler cannot read")
	check.AtMost(s.t, seen.Lost, 0, "activations sent to abandoned calls")
	for _, a := range seen.Acks { // a warm-up has none
		ordered := slices.ContainsFunc(seen.Creations, func(c fakescheduler.Creation) bool { return c.ID == a.Creation })
		check.That(s.t, ordered, "ack %+v", a)
	}
	s.noStrays()
}

// settingsFile writes the environment in the form of the packages' unit, with a test's
// additions.
func (s *scheduled) settingsFile(extra ...string) (path string) {
	s.t.Helper()
	path = filepath.Join(s.t.TempDir(), "invoker.env")
	var text strings.Builder
	for _, v := range append(s.environment(), extra...) {
		name, value, _ := strings.Cut(strings.ReplaceAll(v, "\n", ""), "=")
		fmt.Fprintf(&text, "%s='%s'\n", name, value)
	}
	check.NoError(s.t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// poolCount returns the count that OpenWhisk's role requests before it replaces an
// invoker.
func (s *scheduled) poolCount(p *harness.Process) (n int) {
	s.t.Helper()
	check.NoError(s.t, json.Unmarshal(p.Admin.Do(s.t, http.MethodGet, "/pool/count"), &n))
	return n
}
