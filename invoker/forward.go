package invoker

import (
	"errors"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// maxHops is how often an activation is passed on before somebody has to
// answer it: one hop reaches whoever has a GPU, a second one whoever has it
// when the first has just lost his. More is a circle.
const maxHops = 2

// forward passes an activation on to invokers that have a GPU. They answer it:
// from the moment that the broker has it nothing is acked here and no record
// is written. What cannot be passed on is answered here.
func (iv *Invoker) forward(j *job) {
	t := j.ticket
	topic := iv.settings.GPU.ForwardTo
	refuse := func(why string) {
		iv.log.Error("forward activation", keyActivation, t.ActivationID, "topic", topic, "error", why)
		iv.turnAway(t, j, refusal{known: true, response: activation.ErrorResponse(activation.StatusWhiskError,
			fmt.Sprintf("The action asks for a GPU, and its activation could not be passed on to the invokers that have one (whisk.gpu.forward-topic): %s.", why))})
	}
	way := activation.Forwarded{Instance: iv.desk.instance}
	if t.Forwarded != nil {
		way = *t.Forwarded
	}
	if way.Hops++; way.Hops > maxHops {
		refuse(fmt.Sprintf("it was passed on %d times already and came back to %s, which has no GPU", maxHops, iv.desk.instance.Topic()))
		return
	}
	if !t.take(sendOn) {
		return
	}
	m := *t.Message
	m.Forwarded = &way
	// A function stays with one of the invokers that share the topic: where it
	// is warm.
	key := t.User.Namespace.Name + " " + j.action.FQN()
	err := iv.ports.Outbox.Forward(iv.desk.ctx, topic, key, m.Encode(), func(err error) {
		if errors.Is(err, ErrUnsent) { // the message comes again after a restart
			iv.log.Warn("forward activation", keyActivation, t.ActivationID, "topic", topic, "error", err)
			iv.places.release(t.place)
			return
		}
		if err != nil {
			t.take(sentBack)
			refuse(fmt.Sprintf("the topic %s does not take it: %s", topic, err))
			return
		}
		t.take(sentOn)
		iv.metrics.forwarded.Inc()
		iv.places.release(t.place)
		t.settle()
	})
	if err != nil { // flushing is over: the message comes again after a restart
		iv.log.Error("forward activation", keyActivation, t.ActivationID, "topic", topic, "error", err)
		iv.places.release(t.place)
	}
}
