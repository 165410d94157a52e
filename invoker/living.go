package invoker

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// lastWords is how long a run waits for its answer after its container has
// ended. What was answered before comes at once. A connection mostly breaks
// with its container; when the container's network goes first, it does not.
const lastWords = time.Second

// living is the context of all runs in a container. It is made by the first of
// them: one for each would be a thirtieth of what a run costs.
type living struct {
	mu   sync.Mutex
	work context.Context // that it was made of
	ctx  context.Context
	end  context.CancelFunc
}

// running gives the context of a run in the container: it ends with the work, and
// when the container has ended by itself.
func (b *box) running(work context.Context) context.Context {
	l := &b.living
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.work != work {
		l.work = work
		l.ctx, l.end = b.alive(work, lastWords)
	}
	return l.ctx
}

// gone is called when the container is no more.
func (l *living) gone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
	}
}

// alive gives a context that ends with another one and when the container has
// ended by itself: nobody will answer, and the user need not wait for the time
// limit to hear that. grace is for an answer that was given before the end.
func (b *box) alive(of context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(of)
	unheard := context.AfterFunc(b.life, func() {
		if b.lost() {
			end() // whatever it may still say, its device is gone
			return
		}
		late := time.AfterFunc(grace, end)
		context.AfterFunc(ctx, func() { late.Stop() })
	})
	return ctx, func() {
		unheard()
		end()
	}
}

// unlessDead says of a call that was ended because its container had what it
// would have come to.
func unlessDead(ctx context.Context, x proxy.Exchange) proxy.Exchange {
	if x.Failure == proxy.Cancelled && ctx.Err() == nil {
		x.Failure = proxy.Refused
		if x.Sent {
			x.Failure = proxy.NoResponse
		}
	}
	return x
}
