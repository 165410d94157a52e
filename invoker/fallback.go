package invoker

import (
	"context"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/activation"
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

// settleMode has a job's container count its memory where the action's libraries
// bear no more.
func (j *job) settleMode(g GPUSettings) {
	if j.gpu.Shim != activation.ShimManaged || !g.mayFallBack() {
		return
	}
	if why, fell := g.Fallbacks.Reason(j.action.FQN()); fell {
		j.gpu.Shim, j.fallback = activation.ShimCount, why
	}
}

// fallBack remembers that a container's function does not bear memory that moves.
// True: its containers shall take no more runs, for the next ones only count.
func (d *dispatcher) fallBack(b *box, why string) bool {
	g, action := d.settings.GPU, b.gpu.action
	may := g.mayFallBack()
	if g.Fallbacks == nil || !g.Fallbacks.Add(action, why) {
		return may
	}
	d.goWork(func(context.Context) { g.Fallbacks.Save() })
	if may {
		d.log.Warn("the libraries of an action do not bear GPU memory that is moved: it is only counted from now on",
			"action", action, keyContainer, b.name, "reason", why, "undo", "gpuwhisk fallbacks --clear "+action)
	} else {
		d.log.Warn("the libraries of an action do not bear GPU memory that is moved, and whisk.gpu.shim.modes does not allow count",
			"action", action, keyContainer, b.name, "reason", why)
	}
	return may
}

// unfit lists the containers of a function whose memory is moved, in the lane's
// order.
func unfit(boxes map[lane.Box]*box, action string) (ids []lane.Box) {
	for id, b := range boxes {
		if b.gpu.action == action && b.gpu.wish.Shim == activation.ShimManaged {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
