//go:build ansible

package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
)

// cluster is the first part of all keys in etcd.
const cluster = activation.Cluster("whisk")

// scheduling holds the additional parts of a deployment in OpenWhisk's scheduler mode:
// etcd, a scheduler, and a controller's list of invokers.
type scheduling struct {
	w         *fixture
	etcd      *fakescheduler.Keys
	scheduler *fakescheduler.Scheduler

	mu        sync.Mutex
	functions map[string]fakescheduler.Function
	next      int
	by        map[activation.ID]string // the invoker that ran it, from the result's ack
	ended     map[activation.ID]chan string
}

// schedule switches the deployment to scheduler mode. The invokers' environment gets the
// same additions as from OpenWhisk's role.
func (w *fixture) schedule() {
	w.t.Helper()
	member := peer(w.t, "etcd", "GPUWHISK_ETCD_DIR="+filepath.Join(w.dir, "etcd"), "GPUWHISK_ETCD_HOST="+w.gateway)["GPUWHISK_TEST_ETCD"]
	s := &scheduling{w: w, functions: map[string]fakescheduler.Function{}, by: map[activation.ID]string{}, ended: map[activation.ID]chan string{}}
	s.etcd = fakescheduler.OpenKeys(w.t, member, cluster)
	runtimes, err := activation.ParseManifest(manifest(), activation.ManifestOptions{})
	check.NoError(w.t, err)
	s.scheduler, err = fakescheduler.New(fakescheduler.Config{Cluster: cluster, Host: w.gateway, Etcd: member, Kafka: w.kafka, Manifest: runtimes, Log: slog.New(slog.DiscardHandler)})
	check.NoError(w.t, err)
	w.t.Cleanup(s.scheduler.Kill)
	s.consume()
	controller := httptest.NewServer(http.HandlerFunc(s.invokers))
	w.t.Cleanup(controller.Close)
	maps.Copy(w.vars["test_env"].(map[string]string), map[string]string{
		"CONFIG_whisk_etcd_hosts": member, "CONFIG_whisk_etcd_lease_timeout": "10", "CONFIG_whisk_etcd_pool_threads": "10",
		"CONFIG_whisk_scheduler_dataManagementService_retryInterval": "1 second", "CONFIG_whisk_invoker_containerCreation_maxPeek": "500",
		"CONFIG_whisk_spi_InvokerProvider":       "org.apache.openwhisk.core.invoker.FPCInvokerReactive",
		"CONFIG_whisk_spi_InvokerServerProvider": "org.apache.openwhisk.core.invoker.FPCInvokerServer",
		"CONFIG_whisk_cluster_name":              string(cluster), "CONFIG_whisk_containerPool_memorySyncInterval": "1 second",
		"CONFIG_whisk_invoker_dedicated_namespaces": " '' ",
	})
	host, port, _ := net.SplitHostPort(member)
	w.groups += "\n[etcd]\netcd0 ansible_host=" + host + "\n"
	maps.Copy(w.vars, map[string]any{
		"enable_scheduler": true, "gpuwhisk_controller_url": controller.URL, "gpuwhisk_controller_host": "host0",
		"etcd": map[string]any{"client": map[string]any{"port": json.Number(port)}},
	})
	w.scheduling = s
	w.save()
}

// invokers answers like a controller in scheduler mode.
func (s *scheduling) invokers(w http.ResponseWriter, r *http.Request) {
	answer, err := s.etcd.Get(r.Context(), cluster.Invokers(), clientv3.WithPrefix())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	all := map[string]activation.HealthStatus{}
	for _, kv := range answer.Kvs {
		if h, err := activation.DecodeHealth(kv.Value); err == nil {
			all["invoker"+strings.TrimPrefix(string(kv.Key), cluster.Invokers())] = h.Status
		}
	}
	_ = json.NewEncoder(w).Encode(all)
}

// consume reads the acks of the activations' controller.
func (s *scheduling) consume() {
	client, err := kgo.NewClient(kgo.SeedBrokers(s.w.kafka), kgo.ConsumeTopics("completed0"), kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	check.NoError(s.w.t, err)
	s.w.readAcks(client, func(ack activation.Ack, _ time.Time) { s.take(ack) })
}

func (s *scheduling) take(ack activation.Ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ack.Record != nil {
		var result struct{ By string }
		_ = json.Unmarshal(ack.Record.Response.Result, &result)
		s.by[ack.ActivationID] = result.By
	}
	if waits := s.ended[ack.ActivationID]; waits != nil && ack.FreesSlot() {
		delete(s.ended, ack.ActivationID)
		waits <- s.by[ack.ActivationID]
		delete(s.by, ack.ActivationID)
	}
}

// invoke gives an activation to the scheduler and waits for its end.
func (s *scheduling) invoke(action string) (id, by string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	f, err := s.function(ctx, action)
	if err != nil {
		return "", "", err
	}
	ended := make(chan string, 1)
	s.mu.Lock()
	s.next++
	m := &activation.Message{
		TransID: activation.NewTransID("t", time.Now().UnixMilli(), false), Action: f.Queue.Action, Revision: f.Queue.Revision,
		User:         activation.Identity{Subject: "guest", Namespace: activation.Namespace{Name: "guest", UUID: "u"}, Rights: []string{}},
		ActivationID: activation.ID(fmt.Sprintf("%032x", s.next)), Controller: "0", Blocking: true, Content: json.RawMessage(`{}`),
	}
	s.ended[m.ActivationID] = ended
	s.mu.Unlock()
	if err := s.scheduler.Invoke(ctx, m); err != nil {
		return "", "", err
	}
	select {
	case by = <-ended:
	case <-ctx.Done():
		return "", "", fmt.Errorf("activation %s: %w", m.ActivationID, ctx.Err())
	}
	if by == "" {
		return "", "", errors.New("activation " + string(m.ActivationID) + " has no result")
	}
	return string(m.ActivationID), by, nil
}

// function returns an action of guest and its queue.
func (s *scheduling) function(ctx context.Context, action string) (fakescheduler.Function, error) {
	s.mu.Lock()
	f, ok := s.functions[action]
	s.mu.Unlock()
	if ok {
		return f, nil
	}
	res, err := s.w.database(ctx, "WhiskEntity", url.PathEscape("guest/"+action))
	if err != nil {
		return f, err
	}
	defer res.Body.Close()
	var doc json.RawMessage
	if err := json.NewDecoder(res.Body).Decode(&doc); err != nil {
		return f, err
	}
	if f.Queue, f.MetaData, err = handover.Describe(doc, "guest"); err != nil {
		return f, err
	}
	s.mu.Lock()
	s.functions[action] = f
	s.mu.Unlock()
	return f, s.scheduler.CreateQueue(ctx, f)
}

// lease returns the number of an invoker's lease in etcd, "" if there is none.
func (s *scheduling) lease(n int) string {
	s.w.t.Helper()
	answer, err := s.etcd.Get(s.w.t.Context(), cluster.Lease(activation.Instance{ID: n, UniqueName: fmt.Sprint(n)}))
	check.NoError(s.w.t, err)
	if len(answer.Kvs) == 0 {
		return ""
	}
	return string(answer.Kvs[0].Value)
}

// TestSwapScheduled swaps the invokers of a deployment with OpenWhisk's scheduler under
// load, and back again. An invoker that was deployed for the other mode stops the swap.
func TestSwapScheduled(t *testing.T) {
	w := newFixture(t)
	w.schedule()
	w.deployOriginal()
	load := w.startLoad()

	w.vars["enable_scheduler"] = false
	w.save()
	out, ok := w.play("gpuwhisk.openwhisk.swap")
	check.That(t, !ok, "%s\ncontrollers without the scheduler stop the swap", out)
	check.That(t, strings.Contains(out, "was deployed for scheduler mode"), "%s\nthe reason is shown", out)
	w.vars["enable_scheduler"] = true
	w.save()
	w.must("gpuwhisk.openwhisk.swap")
	ours := map[int]string{}
	for n := range hosts {
		w.wantOurs(t, n)
		ours[n] = w.scheduling.lease(n)
		check.That(t, ours[n] != "", "invoker%d has a lease", n)
	}
	w.wantNoMore(t, "swap")
	out = w.must("gpuwhisk.openwhisk.status")
	check.Equal(t, strings.Count(out, " healthy "), hosts, "%s\nthe number of healthy invokers", out)

	w.must("gpuwhisk.openwhisk.swap_back")
	for n := range hosts {
		w.wantOriginal(t, n)
		check.That(t, w.scheduling.lease(n) != ours[n], "invoker%d ended with its lease %s", n, ours[n])
	}
	load.end(t)
	seen, _ := w.scheduling.scheduler.Seen()
	check.Equal(t, seen.Lost, 0, "the number of activations that went to calls that were given up")
	check.Equal(t, seen.Unparsed, 0, "the number of messages that the scheduler could not read")
	check.Equal(t, len(seen.Failures), 0, "%+v: the number of activations that the scheduler gave up", seen.Failures)
}
