package activation

import (
	"cmp"
	"strconv"
	"strings"
)

// Cluster is the name of an OpenWhisk cluster, the first part of each of its keys
// in etcd. Schedulers split keys at their slashes and count from both ends, so a key
// that is wrong in one part disturbs them all (EtcdUtils.scala).
type Cluster string

func (c Cluster) key(parts ...string) string {
	return string(c) + "/" + strings.Join(parts, "/")
}

// queue is the part of a key that names a queue.
func (q Queue) key() string {
	return q.Namespace + "/" + q.Action.FQN() + "/" + cmp.Or(q.Revision, "null")
}

// Invoker is the key of an invoker's Health.
func (c Cluster) Invoker(i Instance) string {
	return c.key("invokers", strconv.Itoa(i.ID)) + strings.TrimPrefix(i.String(), i.Topic())
}

// Invokers begins the keys of all invokers.
func (c Cluster) Invokers() string { return c.key("invokers", "") }

// Existing is the key of a container that fetches.
func (c Cluster) Existing(q Queue, i Instance, container string) string {
	return c.ExistingOf(q) + i.Topic() + "/container/" + container
}

// ExistingOf begins the keys of all containers that fetch from a queue.
func (c Cluster) ExistingOf(q Queue) string { return c.key("namespace", q.key(), "") }

// ExistingAll begins the keys of all containers that fetch.
func (c Cluster) ExistingAll() string { return c.key("namespace", "") }

// ExistingIn begins the keys of all containers that fetch for a namespace.
func (c Cluster) ExistingIn(namespace string) string { return c.key("namespace", namespace, "") }

// Warmed is the key of a paused container that a creation can resume. Its parts
// differ from Existing's: the invoker's number stands alone.
func (c Cluster) Warmed(q Queue, i Instance, container string) string {
	return c.WarmedOf(q) + "invoker/" + strconv.Itoa(i.ID) + "/container/" + container
}

// WarmedOf begins the keys of a queue's paused containers.
func (c Cluster) WarmedOf(q Queue) string { return c.key("warmed", q.key(), "") }

// WarmedAll begins the keys of all paused containers.
func (c Cluster) WarmedAll() string { return c.key("warmed", "") }

// InProgress returns the key by which a scheduler counts a creation without an ack.
func (c Cluster) InProgress(q Queue, scheduler string, creation ID) string {
	return c.InProgressOf(q) + "scheduler/" + scheduler + "/creationId/" + string(creation)
}

// InProgressOf begins the keys of a queue's creations.
func (c Cluster) InProgressOf(q Queue) string { return c.key("in-progress", q.key(), "") }

// InProgressAll begins the keys of all creations.
func (c Cluster) InProgressAll() string { return c.key("in-progress", "") }

// InProgressIn begins the keys of a namespace's creations.
func (c Cluster) InProgressIn(namespace string) string { return c.key("in-progress", namespace, "") }

// Lease is the key under which an invoker keeps the number of its lease.
func (c Cluster) Lease(i Instance) string { return c.key("instance", i.String(), "lease") }

// Leader is the key of the SchedulerEndpoints that has the queues of an action, for
// the namespace that invokes it.
func (c Cluster) Leader(q Queue) string {
	return c.Leaders() + q.Namespace + "/" + q.Action.FQN() + "/leader"
}

// Leaders begins the keys of all leaders.
func (c Cluster) Leaders() string { return c.key("queue", "") }

// Scheduler is the key of a SchedulerState.
func (c Cluster) Scheduler(id string) string { return c.Schedulers() + id }

// Schedulers begins the keys of all schedulers.
func (c Cluster) Schedulers() string { return c.key("scheduler", "") }

// Throttled is the key by which controllers refuse a namespace's activations.
func (c Cluster) Throttled(namespace string) string { return c.key("throttling", namespace) }

// ThrottledAction is the key by which controllers refuse those of one action.
func (c Cluster) ThrottledAction(q Queue) string {
	return c.key("throttling", q.Namespace, q.Action.FQN())
}

// ContainerOf returns the container in a key of Existing or Warmed: the text after the
// last slash.
func ContainerOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// InvokerOf is the invoker that a key of Existing or Warmed names.
func InvokerOf(key string) (id int, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) < 3 || parts[len(parts)-2] != "container" {
		return 0, false
	}
	id, err := strconv.Atoi(strings.TrimPrefix(parts[len(parts)-3], "invoker"))
	return id, err == nil && id >= 0
}

// InvokerOfHealth is the invoker that a key of Invoker names.
func (c Cluster) InvokerOfHealth(key string) (id int, ok bool) {
	rest, ok := strings.CutPrefix(key, c.Invokers())
	number, _, _ := strings.Cut(rest, "/")
	id, err := strconv.Atoi(number)
	return id, ok && err == nil && id >= 0
}
