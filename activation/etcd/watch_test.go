package etcd

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

func await(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(peertest.WaitLimit):
		t.Fatal("no change is reported")
	}
}

// TestLeader follows the leader of a queue: it exists, moves, disappears and returns.
func TestLeader(t *testing.T) {
	f := shared(t)
	const value = `{"host":"10.0.0.%d","pekkoPort":17355,"rpcPort":13001}`
	f.put(f.cluster.Leader(hello), fmt.Sprintf(value, 1))
	c := f.client(f.config())
	at, ok, changed := c.Leader(hello)
	if !ok {
		await(t, changed)
		at, ok, changed = c.Leader(hello)
	}
	check.That(check.Must(t), ok, "got %v, %v", at, ok)
	check.Equal(check.Must(t), at, (activation.Endpoint{Host: "10.0.0.1", Port: 13001}))
	f.put(f.cluster.Leader(hello), fmt.Sprintf(value, 2))
	await(t, changed)
	at, _, changed = c.Leader(hello)
	check.Equal(t, at.Host, "10.0.0.2")
	f.delete(f.cluster.Leader(hello))
	await(t, changed)
	_, ok, changed = c.Leader(hello)
	check.That(t, !ok, "it is not gone")
	f.put(f.cluster.Leader(hello), "damaged")
	f.put(f.cluster.Leader(hello), fmt.Sprintf(value, 3))
	await(t, changed)
	at, _, _ = c.Leader(hello)
	check.Equal(t, at.Host, "10.0.0.3")
}

func TestSchedulers(t *testing.T) {
	f := shared(t)
	state := func(id string, queues int64) activation.SchedulerState {
		return activation.SchedulerState{ID: id, Queues: queues, Endpoints: activation.SchedulerEndpoints{Endpoint: activation.Endpoint{Host: "h" + id, Port: 1}, ActorPort: 2}}
	}
	f.put(f.cluster.Scheduler("1"), string(state("1", 0).Encode()))
	c := f.client(f.config())
	until := func(want ...activation.SchedulerState) {
		t.Helper()
		for {
			all, changed := c.Schedulers()
			if fmt.Sprint(all) == fmt.Sprint(want) {
				return
			}
			await(t, changed)
		}
	}
	until(state("1", 0))
	f.put(f.cluster.Scheduler("0"), string(state("0", 3).Encode()))
	until(state("0", 3), state("1", 0))
	f.delete(f.cluster.Scheduler("1"))
	until(state("0", 3))
}
