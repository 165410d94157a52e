package gpucheck

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// trial is one step under way.
type trial struct {
	*fixture
	*Result
	ctx context.Context

	mu      sync.Mutex
	started []*program
}

// failure carries an error out of a step.
type failure struct{ err error }

// require ends the step if there is an error.
func require(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// fail ends the step.
func fail(format string, args ...any) { require(fmt.Errorf(format, args...)) }

// value returns the value of a call that must not fail.
func value[T any](v T, err error) T {
	require(err)
	return v
}

// catch returns the error with which a function ended the step.
func catch(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// attempt runs a part of a step and returns its error.
func attempt(part string, f func()) error {
	if err := catch(f); err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	return nil
}

// together runs functions at the same time.
func together(functions ...func()) {
	parallel(len(functions), len(functions), func(i int) { functions[i]() })
}

// parallel runs n functions, at most atOnce at a time. When all have returned it ends the
// step with their first error.
func parallel(n, atOnce int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i := range n {
		g.Go(func() error { return catch(func() { f(i) }) })
	}
	require(g.Wait())
}

// start runs a program until the step ends. A program under the shim has a container of its
// own. start waits until its shim has connected.
func (t *trial) start(name string, args []string, shim bool, env ...string) *program {
	environ := t.env(env...)
	var c *shimctl.Container
	if shim {
		c = t.container()
		environ = t.shimEnv(c, env...)
	}
	p := value(startProgram(t.ctx, name, args, environ))
	p.container = c
	t.mu.Lock()
	t.started = append(t.started, p)
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.ctx, 20*time.Second)
	defer cancel()
	for shim && c.Processes() == 0 {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			fail("%s: the shim has not connected: %w%s", name, ctx.Err(), p.last())
		}
	}
	return p
}

// worker starts worker.c.
func (t *trial) worker(shim bool, env ...string) *program {
	return t.start("worker", []string{t.path("check/worker")}, shim, env...)
}

// filled starts worker.c under the shim with a block of known contents.
func (t *trial) filled(bytes int64, seed int) *program {
	p := t.worker(true)
	p.fill(bytes, seed)
	return p
}

// evict and prefetch carry out an order as the invoker gives it. Only full success does not
// end the step.
func (t *trial) evict(p *program) shimctl.Done {
	d, err := p.container.Evict(t.ctx, t.count.Add(1))
	return complete("evict", d, err)
}

func (t *trial) prefetch(p *program) shimctl.Done {
	d, err := p.container.Prefetch(t.ctx, t.count.Add(1), 0)
	return complete("prefetch", d, err)
}

func complete(order string, d shimctl.Done, err error) shimctl.Done {
	switch {
	case err != nil:
		fail("%s: %w", order, err)
	case d.Status != shimctl.OK:
		fail("%s: %s after %s, driver's answer %d", order, d.Status, size(d.Moved), d.Code)
	case d.Processes == 0:
		fail("%s: no process answered", order)
	}
	return d
}
