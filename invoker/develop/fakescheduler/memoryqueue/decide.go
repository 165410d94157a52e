package memoryqueue

import (
	"math"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Counts holds the number of a namespace's containers and its limit.
type Counts struct {
	Limit      int
	Existing   int
	InProgress int
}

// Decide says how many containers to order now (SchedulingDecisionMaker.scala). The
// original decides every 100 ms.
func (q *Queue) Decide(now time.Time, c Counts) int {
	total := len(q.containers) + len(q.creations)
	if c.Limit <= 0 {
		if q.state == Running {
			q.flush("ZeroNamespaceLimit", "The namespace may have no containers.")
		}
		return 0
	}
	limit := c.Limit
	if q.settings.Instances > 0 {
		limit = q.settings.Instances
	}
	namespaceFree := c.Limit - c.Existing - c.InProgress
	free := min(namespaceFree, limit-total)
	if free <= 0 {
		q.throttle(total == 0)
		return 0
	}
	n := q.wanted(now, total)
	if n > free {
		if q.state == Running && namespaceFree == free {
			q.state = NamespaceThrottled
		}
		return free
	}
	return max(n, 0)
}

// throttle handles a namespace that may not have another container. If drop is set,
// the queue has no container of its own, and its waiting activations fail.
func (q *Queue) throttle(drop bool) {
	if q.state != Running {
		return
	}
	if !drop {
		q.state = NamespaceThrottled
		return
	}
	for _, a := range q.Take() {
		q.fail(a, activation.StatusDeveloperError, tooManyRequests)
	}
	q.flush("TooManyConcurrentRequests", tooManyRequests)
}

// wanted returns the number of further containers that the queue needs. It ignores
// the limits.
func (q *Queue) wanted(now time.Time, total int) int {
	switch q.state {
	case NamespaceThrottled:
		q.state = Running
		return 0
	case Flushing:
		if total == 0 {
			return 1
		}
		return 0
	case Running:
		if total == 0 && len(q.durations) == 0 && !q.initialized {
			q.initialized = true
			return 1
		}
		if total == 0 && len(q.waiting) > 0 {
			return 1
		}
	case Removing:
		if q.stale(now) == 0 {
			return 0
		}
	default:
		return 0
	}
	return q.byLoad(now, total)
}

// byLoad computes the number of further containers from the waiting activations and
// the mean duration of runs.
func (q *Queue) byLoad(now time.Time, total int) int {
	stale := q.stale(now)
	if len(q.durations) == 0 {
		if stale == 0 {
			return 0
		}
		return min(ceil(float64(stale)/float64(q.settings.Concurrency))-len(q.creations), len(q.waiting))
	}
	mean := q.mean()
	perContainer := float64(q.settings.Concurrency) // runs of one container within settings.Stale
	if mean > 0 {
		perContainer *= float64(q.settings.Stale) / float64(mean)
	}
	n := 0
	fresh := len(q.waiting) - stale
	if mean > 0 && float64(fresh) >= perContainer*float64(total) && total < fresh {
		n = min(ceil(float64(fresh)/perContainer)-total, fresh-total)
	}
	if stale > 0 {
		n += min(ceil(float64(stale)/perContainer), stale) - len(q.creations)
	}
	return n
}

func ceil(f float64) int { return int(math.Ceil(min(f, 1e6))) }

// stale returns the number of activations that have waited longer than
// settings.Stale.
func (q *Queue) stale(now time.Time) int {
	n := 0
	for _, a := range q.waiting {
		if now.Sub(a.At) <= q.settings.Stale {
			break // the activations are sorted by arrival
		}
		n++
	}
	return n
}

func (q *Queue) mean() time.Duration {
	var sum time.Duration
	for _, d := range q.durations {
		sum += d
	}
	return sum / time.Duration(len(q.durations))
}

// ContainerPut counts a container whose key was put.
func (q *Queue) ContainerPut(id string) { q.containers[id] = true }

// ContainerDeleted no longer counts a container.
func (q *Queue) ContainerDeleted(id string) { delete(q.containers, id) }

// CreationPut counts a creation whose key was put.
func (q *Queue) CreationPut(id activation.ID) { q.creations[id] = true }

// CreationDeleted no longer counts a creation.
func (q *Queue) CreationDeleted(id activation.ID) { delete(q.creations, id) }

// CreationSucceeded reports that the container of a creation exists.
func (q *Queue) CreationSucceeded(id activation.ID) {
	delete(q.creations, id)
	if q.state == Flushing {
		q.state = Running
	}
}

// CreationFailed reports that the last attempt to create a container has failed. A
// queue without containers then flushes: an error of OpenWhisk leaves the
// activations waiting, an error of the developer fails the waiting activations.
func (q *Queue) CreationFailed(id activation.ID, cause activation.CreationError, reason string) {
	delete(q.creations, id)
	if len(q.containers) > 0 || q.state == Removed {
		return
	}
	if !cause.Retried() {
		for _, a := range q.Take() {
			q.fail(a, activation.StatusDeveloperError, reason)
		}
	}
	if cause == activation.InvalidActionLimit {
		if q.refused++; q.refused > 1 {
			q.Remove()
			return
		}
	}
	q.flush(cause, reason)
}

func (q *Queue) flush(cause activation.CreationError, reason string) {
	q.cause, q.reason = cause, reason
	if q.state != Removing {
		q.state = Flushing
	}
}
