package harness

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// schedulerMode holds the parts of a deployment that exist only in OpenWhisk's scheduler
// mode.
type schedulerMode struct {
	Etcd      *peertest.Etcd // nil if the etcd is shared
	EtcdAddr  string
	Keys      *fakescheduler.Keys
	Scheduler *fakescheduler.Scheduler
	Config    fakescheduler.Config // of the scheduler
}

// startScheduler turns the deployment to scheduler mode.
func (d *Deployment) startScheduler(p Parts) {
	t := d.T
	t.Helper()
	s := &d.schedulerMode
	if p.OwnEtcd {
		s.Etcd = peertest.NewEtcd(t)
		s.EtcdAddr = s.Etcd.Addr
	} else {
		s.EtcdAddr = peertest.NeedEtcd(t)
	}
	cluster := activation.Cluster(fmt.Sprintf("c%d", time.Now().UnixNano()))
	// As the role of OpenWhisk's deployment adds to an invoker's environment.
	d.Settings = append([]string{"CONFIG_whisk_etcd_hosts=" + s.EtcdAddr, "CONFIG_whisk_etcd_lease_timeout=10", "CONFIG_whisk_etcd_pool_threads=10",
		"CONFIG_whisk_scheduler_dataManagementService_retryInterval=1 second", "CONFIG_whisk_invoker_containerCreation_maxPeek=500",
		"CONFIG_whisk_spi_InvokerProvider=org.apache.openwhisk.core.invoker.FPCInvokerReactive",
		"CONFIG_whisk_spi_InvokerServerProvider=org.apache.openwhisk.core.invoker.FPCInvokerServer",
		"CONFIG_whisk_cluster_name=" + string(cluster), "CONFIG_whisk_memory_max=2048m", "CONFIG_whisk_gpu_devices=none"}, d.Settings...)
	s.Keys = fakescheduler.OpenKeys(t, s.EtcdAddr, cluster)
	runtimes, err := activation.ParseManifest([]byte(d.Manifest), activation.ManifestOptions{})
	check.NoError(t, err)
	s.Config = fakescheduler.Config{
		Cluster: cluster, Etcd: s.EtcdAddr, Kafka: d.Kafka, Manifest: runtimes, Log: d.Log,
		Lease: 10 * time.Minute, // it outlives the stops of etcd
	}
	p.Scheduler(&s.Config)
	s.Scheduler, err = fakescheduler.New(s.Config)
	check.NoError(t, err)
	t.Cleanup(func() { s.Scheduler.Kill() }) // the last scheduler
}

// AwaitUp blocks until schedulers see that an invoker is up.
func (d *Deployment) AwaitUp(id int, p *Process) {
	d.T.Helper()
	d.awaitUp(id, func() {
		select {
		case <-p.Ended:
			d.T.Fatalf("the invoker ended: %v\n%s", p.Err, p.Output.String())
		default:
		}
	})
}

// awaitUp is AwaitUp, and calls failed again and again meanwhile.
func (d *Deployment) awaitUp(id int, failed func()) {
	d.T.Helper()
	d.Until("the invoker is up", func() string {
		failed()
		if h, _ := d.Health(id); h.Status != activation.Up {
			return fmt.Sprintf("%+v", h)
		}
		return ""
	})
}

// Until is peertest.Until.
func (d *Deployment) Until(what string, whyNot func() string) {
	d.T.Helper()
	peertest.Until(d.T, what, whyNot)
}

// KeysBelow returns the keys in etcd below a part of the cluster, with their leases.
func (d *Deployment) KeysBelow(part string) (leases map[string]fakescheduler.Lease) {
	d.T.Helper()
	return d.Keys.Below(d.T, part)
}

// AwaitNoKeys blocks until there is no key below a part of the cluster.
func (d *Deployment) AwaitNoKeys(below string) {
	d.T.Helper()
	d.Until("no keys "+below, func() string {
		if keys := d.KeysBelow(below); len(keys) > 0 {
			return fmt.Sprint(keys)
		}
		return ""
	})
}

// Health returns the record of an invoker and its lease.
func (d *Deployment) Health(id int) (activation.Health, fakescheduler.Lease) {
	d.T.Helper()
	return d.Keys.Health(d.T, activation.Instance{ID: id, UniqueName: d.Unique})
}

// Function returns a stored action as a scheduler knows it.
func (d *Deployment) Function(action string) fakescheduler.Function {
	d.T.Helper()
	a, ok := d.stored[action]
	check.That(check.Must(d.T), ok, "action %s is not stored", action)
	a.Code = ""
	return fakescheduler.Function{
		Queue:    activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: a.Name, Version: cmp.Or(a.Version, firstVersion)}, d.Revisions[action]),
		MetaData: activation.NewActionMetaData(a.Document(d.T)),
	}
}

// PutNowhere is Put for an action that the database does not have.
func (d *Deployment) PutNowhere(a Action) {
	d.stored[a.Name], d.Revisions[a.Name] = a, "1-0a"
}

// Queue returns the state of the queue of an action. ok is false if the action has no queue.
func (d *Deployment) Queue(action string) (q fakescheduler.QueueState, ok bool) {
	d.T.Helper()
	return d.Scheduler.Queue(d.Function(action).Queue)
}

// AwaitState blocks until the queue of an action is in a state.
func (d *Deployment) AwaitState(what, action string, want memoryqueue.State) {
	d.T.Helper()
	d.Until(what, func() string {
		if q, _ := d.Queue(action); q.State != want {
			return q.State.String()
		}
		return ""
	})
}

// Creations returns the creations that were sent for an action.
func (d *Deployment) Creations(action string) (all []fakescheduler.Creation) {
	seen, _ := d.Scheduler.Seen()
	for _, c := range seen.Creations {
		if c.Queue.Action.Name == action {
			all = append(all, c)
		}
	}
	return all
}

// Fetched returns the number of activations that were handed out to invokers.
func (d *Deployment) Fetched() int {
	seen, _ := d.Scheduler.Seen()
	return seen.Fetches[activation.Fetched]
}

// CheckNothingLost fails the test if the scheduler lost an activation, or could not read a
// message of an invoker, or did not order the creation of an ack.
func (d *Deployment) CheckNothingLost() {
	d.T.Helper()
	seen, _ := d.Scheduler.Seen()
	check.AtMost(d.T, seen.Unparsed, 0, "messages that the scheduler cannot read")
	check.AtMost(d.T, seen.Lost, 0, "activations sent to abandoned calls")
	for _, a := range seen.Acks { // a warm-up has none
		ordered := slices.ContainsFunc(seen.Creations, func(c fakescheduler.Creation) bool { return c.ID == a.Creation })
		check.That(d.T, ordered, "ack %+v", a)
	}
}
