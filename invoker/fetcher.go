package invoker

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// textUnreadable answers an activation whose message was spilled and is lost.
const textUnreadable = "The activation waited for a GPU, and the invoker cannot read its message back from its disk."

// fetcher reads spilled messages back beside the dispatcher, and makes pending activations
// and jobs of them. What a run waits for is read at once; the rest, at most
// fetchTogether at a time.
type fetcher struct {
	iv     *Invoker
	goWork func(func(ctx context.Context))

	mu      sync.Mutex
	waiting []fetch
	busy    int
}

// fetchTogether keeps an action store busy, and few messages in memory.
const fetchTogether = 16

// fetch is one activation to be read back, and answered if there is a why.
type fetch struct {
	invocation uint64
	spilled    spilled
	why        string
}

// now reads one back that a run waits for.
func (f *fetcher) now(x fetch) { f.goWork(func(ctx context.Context) { f.do(ctx, x) }) }

// hurry reads one back at once that waits for its turn: a run has come to wait for
// it. What is before it may wait for an action that cannot be read for minutes.
func (f *fetcher) hurry(invocation uint64) {
	f.mu.Lock()
	at := slices.IndexFunc(f.waiting, func(x fetch) bool { return x.invocation == invocation })
	if at < 0 {
		f.mu.Unlock()
		return
	}
	x := f.waiting[at]
	f.waiting = slices.Delete(f.waiting, at, at+1)
	f.mu.Unlock()
	f.now(x)
}

// add reads one back in its turn.
func (f *fetcher) add(x fetch) {
	f.mu.Lock()
	f.waiting = append(f.waiting, x)
	start := f.busy < fetchTogether
	if start {
		f.busy++
	}
	f.mu.Unlock()
	if start {
		f.goWork(f.work)
	}
}

func (f *fetcher) work(ctx context.Context) {
	for {
		f.mu.Lock()
		if len(f.waiting) == 0 || ctx.Err() != nil {
			f.busy--
			f.mu.Unlock()
			return
		}
		x := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.mu.Unlock()
		f.do(ctx, x)
	}
}

// do reads one back. Refusals are answered here, others go to
// the dispatcher.
func (f *fetcher) do(ctx context.Context, x fetch) {
	b := broughtBack{invocation: x.invocation}
	b.pending, b.act, b.no = f.read(ctx, x.spilled)
	switch {
	case ctx.Err() != nil: // the spill has it for the next process
		f.iv.permits.release(b.pending.permit)
		return
	case x.why != "":
		f.iv.reject(b.pending, b.act, refusal{response: appError(x.why), known: true})
	default:
		f.iv.dispatch.post(b)
	}
}

// read makes a pending activation of a spilled activation, and a job, or the reason why it
// cannot run.
func (f *fetcher) read(ctx context.Context, sp spilled) (t *pending, act *routed, no *refusal) {
	iv := f.iv
	m, err := f.message(sp)
	t = newPending(iv.completer, Delivery{Message: m, Done: func() {}}, sp.queued)
	iv.observers.notify(onLoaded{t})
	iv.permits.unspill(&t.permit, size(m))
	aborted := func(text string) *refusal {
		return &refusal{response: activation.ErrorResponse(activation.StatusWhiskError, text)}
	}
	defer func() {
		if e := recover(); e != nil {
			iv.log.Error("reading a parked activation panicked", keyActivation, m.ActivationID, "panic", fmt.Sprint(e), "stack", string(debug.Stack()))
			act, no = nil, aborted(textAborted)
		}
		if act != nil {
			act.resume(sp)
		}
	}()
	if err != nil {
		iv.log.Error("parked activation cannot be read back", keyActivation, m.ActivationID, keyAction, m.Action.FQN(), "error", err)
		return t, nil, aborted(textUnreadable)
	}
	a, err := f.action(ctx, t)
	if err != nil {
		r := refuse(err)
		return t, nil, &r
	}
	if act, no = iv.router.route(t, a); no != nil {
		return t, nil, no
	}
	return t, act, nil
}

// message is the whole message, or with an error what memory has of it.
func (f *fetcher) message(sp spilled) (*activation.Message, error) {
	text, err := f.iv.ports.Spill.Message(sp.activation())
	if err != nil {
		return sp.message(), err
	}
	m, err := activation.DecodeMessage(text)
	if err != nil {
		return sp.message(), err
	}
	return m, nil
}

func (f *fetcher) action(ctx context.Context, p *pending) (*activation.Action, error) {
	if p.Revision != "" {
		if a, ok := f.iv.ports.Actions.Cached(p.Action.FQN(), p.Revision); ok {
			return a, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, f.iv.settings.fetchTime())
	defer cancel()
	return f.iv.ports.Actions.Action(ctx, p.Action.FQN(), p.Revision)
}
