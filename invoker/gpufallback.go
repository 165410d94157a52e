package invoker

import (
	"context"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
)

// Fallbacks remembers the actions whose libraries do not bear device memory that
// is moved, so that theirs is only counted. It is safe for concurrent use, and
// only Save waits for a disk.
type Fallbacks interface {
	// Reason tells why an action fell back, if it did.
	Reason(action string) (why string, fell bool)
	// Add remembers an action. False: it is known already.
	Add(action, why string) bool
	// Save writes down what was added, for the next process.
	Save()
}

// mayFallBack tells whether the operator lets actions have their memory only
// counted.
func (g GPUSettings) mayFallBack() bool {
	return g.Fallbacks != nil && (len(g.Modes) == 0 || slices.Contains(g.Modes, activation.ShimCount))
}

// mode has a job's container count its memory where the action's libraries bear
// no more.
func (l *gpuLane) mode(j *job) {
	if j.gpu.Shim != activation.ShimManaged || !l.settings.mayFallBack() {
		return
	}
	if why, fell := l.settings.Fallbacks.Reason(j.action.FQN()); fell {
		j.gpu.Shim, j.fallback = activation.ShimCount, why
	}
}

// fallBack takes the news that a container's function does not bear memory that
// moves. Its containers take no more runs; the next ones only count.
func (l *gpuLane) fallBack(now time.Duration, b *box, why string) {
	action, may := b.gpu.action, l.settings.mayFallBack()
	if l.settings.Fallbacks == nil {
		return
	}
	if l.settings.Fallbacks.Add(action, why) {
		l.d.goWork(func(context.Context) { l.settings.Fallbacks.Save() })
		if may {
			l.d.log.Warn("the libraries of an action do not bear GPU memory that is moved: it is only counted from now on",
				"action", action, keyContainer, b.name, "reason", why, "undo", "gpuwhisk fallbacks --clear "+action)
		} else {
			l.d.log.Warn("the libraries of an action do not bear GPU memory that is moved, and whisk.gpu.shim.modes does not allow count",
				"action", action, keyContainer, b.name, "reason", why)
		}
	}
	if !may {
		return
	}
	var unfit []lane.Box
	for _, other := range l.boxes {
		if other.gpu.action == action && other.gpu.wish.Shim == activation.ShimManaged {
			unfit = append(unfit, other.gpu.id)
		}
	}
	slices.Sort(unfit)
	for _, id := range unfit {
		l.take(now, lane.Event{Kind: lane.Failed, Box: id})
	}
}

// heard takes what a process of a container says it holds.
func (l *gpuLane) heard(now time.Duration, h gpu.Held) {
	b := l.named[h.Container]
	if b == nil {
		return
	}
	if u := h.Usage; !h.Exited && (u.Allocated < 0 || u.Resident < 0 || u.Context < 0) {
		l.d.log.Warn("gpu usage refused: a size is negative", keyContainer, b.name, "pid", h.PID)
		return
	}
	if h.Unfit != "" {
		l.fallBack(now, b, h.Unfit)
		return
	}
	if h.Over != "" && b.life.Err() == nil {
		l.d.log.Warn("gpu container ended", keyContainer, b.name, "pid", h.PID, "reason", h.Over)
		b.die(&overLimit{h.Over})
		l.take(now, lane.Event{Kind: lane.Failed, Box: b.gpu.id})
	}
	b.gpu.learn(h)
	l.grow(now, b, h)
	l.take(now, lane.Event{Kind: lane.Held, Box: b.gpu.id, PID: h.PID, Usage: h.Usage, Exited: h.Exited})
	if !h.Exited {
		b.gpu.measured = !h.Assumed
		l.assume(b, b.gpu.unseen())
	}
	for _, r := range b.gpu.runs {
		r.grant.measured.Store(b.gpu.measured)
		if n, ok := l.lane.Memory(r.item); ok {
			r.grant.memory.Store(n)
		}
	}
	l.showResident(b.gpu.flow)
}
