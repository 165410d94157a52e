package invoker

import (
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// maxAttempts is after how many processes that ended while an activation ran
// it is not run once more: it may be what ended them.
const maxAttempts = 3

// Texts of activations that were running when an invoker ended.
const (
	textInterrupted = "The invoker ended while the action ran. Whether the action did its work is not known, and it is not run again: its annotation rerun, or the setting whisk.invoker.rerun, would allow that."
	textAttempts    = "The invoker ended %d times while the action ran. It is not run again."
)

// interrupted decides on an activation that an earlier process had begun to
// run and did not end: it is run again only where its action or the operator
// says that this does no harm, and not for ever. What had not begun just runs.
// nil lets it run.
//
// The record says that we failed. The ack does not: after a crash there are as
// many of these as ran, and a controller that hears three system errors among
// ten takes the invoker for unhealthy, which this process is not.
func (iv *Invoker) interrupted(t *ticket, a *activation.Action) *refusal {
	var text string
	switch {
	case !t.begun:
		return nil
	case t.attempts >= maxAttempts:
		text = fmt.Sprintf(textAttempts, t.attempts)
	case a.Annotations.Rerun(iv.settings.Rerun):
		iv.log.Info("activation that an earlier process had begun runs again", keyActivation, t.ActivationID, keyAction, t.Action.FQN(), "attempts", t.attempts)
		iv.metrics.interrupted.WithLabelValues("rerun").Inc()
		return nil
	default:
		text = textInterrupted
	}
	iv.log.Warn("activation that an earlier process had begun is answered with an error", keyActivation, t.ActivationID, keyAction, t.Action.FQN(), "attempts", t.attempts)
	iv.metrics.interrupted.WithLabelValues("answered").Inc()
	return &refusal{known: true, former: true, response: activation.ErrorResponse(activation.StatusWhiskError, text)}
}

// pass lets go of an activation that an earlier process has completed: its acks
// and its record are safe, only its place on the topic was not yet committed.
func (iv *Invoker) pass(t *ticket) {
	iv.metrics.interrupted.WithLabelValues("completed").Inc()
	t.settle()
	iv.places.release(t.place)
}
