package scheduler

import (
	"slices"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// revision is one revision of a function. Only invocations of the same revision may share a
// container.
//
// Each decision reads the first fields of all revisions with queued work.
type revision struct {
	flow        *flow
	hostMB      int
	noShim      bool
	unstartable bool  // its last run could not be started
	hint        int64 // the memory to reserve until a run was measured
	cold        gpu.ColdStart
	containers  []*container // not gone, in the order of their creation
	measured    gpu.Footprint
	key         string
	width       int
	invocations int // queued and running
}

// addContainer enters a container of the revision.
func (rev *revision) addContainer(c *container) {
	rev.containers = append(rev.containers, c)
	f := rev.flow
	f.rests = false
	if f.containers++; f.containers == 1 {
		f.space.withContainers = append(f.space.withContainers, f)
	}
}

// dropContainer takes one out.
func (rev *revision) dropContainer(c *container) {
	rev.containers = without(rev.containers, c)
	f := rev.flow
	if f.containers--; f.containers == 0 {
		f.space.withContainers = without(f.space.withContainers, f)
	}
}

// revision finds or makes a revision of a flow, and makes it the newest.
func (s *Scheduler) revision(f *flow, fn *Function) *revision {
	rev := f.revision(fn.Key)
	if rev != nil {
		f.revs = append(without(f.revs, rev), rev)
	} else {
		rev = &revision{flow: f, key: fn.Key, noShim: fn.NoShim, hint: min(fn.Memory, maxBytes)}
		if rev.hint <= 0 {
			rev.hint = s.cfg.Memory
		}
		if len(f.revs) > 0 {
			rev.cold = f.newest().cold.Prior()
			s.policy.Revised(s.now, f.id)
		}
		f.revs = append(f.revs, rev)
		f.prune()
	}
	rev.hostMB, rev.width = max(fn.HostMB, 0), max(fn.Width, 1)
	s.largestHost = max(s.largestHost, rev.hostMB)
	return rev
}

// revision is the one with a key, nil for none.
func (f *flow) revision(key string) *revision {
	if at := slices.IndexFunc(f.revs, func(r *revision) bool { return r.key == key }); at >= 0 {
		return f.revs[at]
	}
	return nil
}

// newest is the revision seen last.
func (f *flow) newest() *revision { return f.revs[len(f.revs)-1] }

// next is the revision of the invocation that would run next.
func (f *flow) next() *revision {
	if len(f.revs) == 1 {
		return f.revs[0]
	}
	if at := f.queue.Front(); at != nil {
		return at.Value.(*invocation).rev
	}
	return f.newest()
}

// keptRevisions is the number of revisions without work and containers whose measurements are
// kept, besides the newest. Actions are rolled back, and old and new messages invoke both
// revisions for a while.
const keptRevisions = 3

// prune drops the oldest revisions of which nothing but measurements is left.
func (f *flow) prune() {
	unused := 0
	for i := len(f.revs) - 2; i >= 0; i-- {
		if rev := f.revs[i]; rev.invocations > 0 || len(rev.containers) > 0 {
			continue
		}
		if unused++; unused > keptRevisions {
			f.revs = slices.Delete(f.revs, i, i+1)
		}
	}
}
