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

// fetcher reads spilled messages back beside the dispatcher, and makes pending
// activations of them. What a run waits for is read at once; the rest in their
// order, at most fetchTogether at a time.
type fetcher struct {
	iv     *Invoker
	goWork func(func(ctx context.Context))

	mu      sync.Mutex
	waiting []fetch
	workers int
}

// fetchTogether keeps an action store busy, and few messages in memory.
const fetchTogether = 16

// fetch is one activation to be read back, and answered if there is a why.
type fetch struct {
	invocation uint64
	spilled    *spilled
	why        string
}

// now reads one back at once.
func (f *fetcher) now(x fetch) { f.goWork(func(ctx context.Context) { f.do(ctx, x) }) }

// hurry reads one back at once that waits for its turn: a run has come to wait for
// it. What is before it may wait for an action that cannot be read for minutes.
func (f *fetcher) hurry(invocation uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.waiting, func(x fetch) bool { return x.invocation == invocation })
	if at >= 0 {
		f.now(f.waiting[at])
		f.waiting = slices.Delete(f.waiting, at, at+1)
	}
}

// add reads one back in its turn.
func (f *fetcher) add(x fetch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, x)
	if f.workers < fetchTogether {
		f.workers++
		f.goWork(f.work)
	}
}

func (f *fetcher) work(ctx context.Context) {
	for {
		f.mu.Lock()
		if len(f.waiting) == 0 || ctx.Err() != nil {
			f.workers--
			f.mu.Unlock()
			return
		}
		x := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.mu.Unlock()
		f.do(ctx, x)
	}
}

// do reads one back. What is to be refused is answered here, the rest goes to the
// dispatcher.
func (f *fetcher) do(ctx context.Context, x fetch) {
	p, no := f.read(ctx, x.spilled)
	switch {
	case ctx.Err() != nil: // it stays spilled, for the next process
		f.iv.permits.release(p.permit)
	case x.why != "":
		f.iv.reject(p, refusal{response: appError(x.why), known: true})
	default:
		f.iv.dispatch.post(broughtBack{x.invocation, p, no})
	}
}

// read makes a pending activation of a spilled one again, and routes it. A refusal
// is the reason why it cannot run.
func (f *fetcher) read(ctx context.Context, sp *spilled) (p *pending, no *refusal) {
	iv := f.iv
	m, err := f.message(sp)
	p = newPending(iv.completer, Delivery{Message: m, Done: func() {}}, sp.queued)
	iv.observe.loaded(p)
	iv.permits.unspill(&p.permit, size(m))
	aborted := func(text string) *refusal {
		return &refusal{response: activation.ErrorResponse(activation.StatusWhiskError, text)}
	}
	if err != nil {
		iv.log.Error("spilled activation cannot be read back", keyActivation, m.ActivationID, keyAction, m.Action.FQN(), "error", err)
		return p, aborted(textUnreadable)
	}
	defer func() {
		if cause := recover(); cause != nil {
			iv.log.Error("reading a spilled activation panicked", keyActivation, m.ActivationID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			no = aborted(textAborted)
		}
	}()
	a, err := f.action(ctx, p)
	if err != nil {
		r := refuse(err)
		return p, &r
	}
	if no = iv.router.route(p, a); no == nil {
		p.resume(sp)
	}
	return p, no
}

// message is the whole message, or with an error what memory has of it.
func (f *fetcher) message(sp *spilled) (*activation.Message, error) {
	text, err := f.iv.ports.Spill.Message(sp.id)
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
	if a, ok := f.iv.cached(p); ok {
		return a, nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.iv.settings.fetchTime())
	defer cancel()
	return f.iv.ports.Actions.Action(ctx, p.Action.FQN(), p.Revision)
}
