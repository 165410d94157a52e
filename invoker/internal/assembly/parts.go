package assembly

import (
	"context"
	"errors"
	"slices"
)

// part is something that the invoker needs.
type part struct {
	name string
	// open may return hooks together with an error, for resources that were opened before the
	// error.
	open func(ctx context.Context) (hooks, error)
}

// hooks end and observe an open part. Each may be nil.
type hooks struct {
	flush func(ctx context.Context) error // sends or stores pending writes
	close func(ctx context.Context) error
	// status adds the health of the part to /status, and gauges adds its numbers to /metrics.
	// Both are called only after the invoker is ready.
	status func(s *status)
	gauges func(s *status, m sink)
}

// openParts has the hooks of the parts that are open, in the order of opening.
type openParts struct {
	hooks []hooks
	ended bool
}

func (o *openParts) open(ctx context.Context, parts []part) error {
	for _, p := range parts {
		h, err := p.open(ctx)
		o.hooks = append(o.hooks, h)
		if err != nil {
			return err
		}
	}
	return nil
}

// close ends the parts in reverse order, once. It flushes all parts before it closes any. It
// goes on after an error and returns all errors.
func (o *openParts) close(ctx context.Context) error {
	if o.ended {
		return nil
	}
	o.ended = true
	var errs []error
	for _, h := range slices.Backward(o.hooks) {
		if h.flush != nil {
			errs = append(errs, h.flush(ctx))
		}
	}
	for _, h := range slices.Backward(o.hooks) {
		if h.close != nil {
			errs = append(errs, h.close(ctx))
		}
	}
	return errors.Join(errs...)
}

// closer makes a close hook of a function that does not wait.
func closer(end func() error) func(context.Context) error {
	return func(context.Context) error { return end() }
}
