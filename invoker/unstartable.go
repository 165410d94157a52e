package invoker

import (
	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// startFailures remembers why GPU functions cannot be started: the code has an error, or
// the image cannot be pulled. While the scheduler has such a function pause, its
// activations are answered with the response of the last one. The dispatcher owns it.
type startFailures map[sched.FlowID]startFailure

type startFailure struct {
	key      string // of the revision
	response activation.Response
}

// largestStartFailure bounds the bytes of a response that is remembered. A function with a
// larger one waits for the end of its pause.
const largestStartFailure = 64 << 10

// judgeStart decides whether the response of a run holds for any other run of the same
// revision. An error of the platform does not.
func (r *run) judgeStart(response activation.Response) {
	began := r.start == container.Warm || !r.trace.RunStart.IsZero()
	if !began && response.StatusCode == activation.StatusDeveloperError && len(response.Result) <= largestStartFailure {
		r.unstartable = &response
	}
}

// ended takes the end of a run.
func (f startFailures) ended(r *run, keep bool) {
	switch {
	case r.unstartable != nil:
		f[flowOf(r.pending)] = startFailure{r.key, *r.unstartable}
	case keep:
		delete(f, flowOf(r.pending))
	}
}

// of returns the end of an activation that the scheduler refuses as unstartable.
func (f startFailures) of(id sched.FlowID, key string) *ending {
	if last := f[id]; last.key == key {
		return &ending{response: last.response}
	}
	return refused(activation.StatusDeveloperError, textUnstartable)
}

// textUnstartable answers an activation of a function that cannot be started, if the known
// reason belongs to another revision.
const textUnstartable = "The action could not be started several times in a row, and will be tried again later."

// refusal returns the end of an activation that the scheduler refuses.
func (g *gpuScheduler) refusal(o scheduler.Order, key string) *ending {
	if o.Reason == scheduler.Unstartable {
		return g.failures.of(o.Flow, key)
	}
	return appError(g.settings.refusal(o, g.core))
}
