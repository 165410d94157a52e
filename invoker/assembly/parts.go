package assembly

import (
	"context"
	"errors"
)

// part is one thing that the invoker stands on. What it lacks is nil. flush and
// close are also called where open failed, perhaps half-way.
type part struct {
	name  string
	open  func(ctx context.Context) error
	flush func(ctx context.Context) error // lets out what is written already
	close func(ctx context.Context) error
	// status adds to /status what the part knows of itself, and gauges shows that
	// at /metrics. Both are called once the invoker is ready.
	status func(s *status)
	gauges func(s *status, m sink)
}

// parts opens its parts one after the other, and ends them in reverse: first all
// are flushed, then all are closed.
type parts struct {
	all   []part
	begun int // that many were opened, or tried
}

func (p *parts) open(ctx context.Context) error {
	for _, it := range p.all {
		p.begun++
		if it.open == nil {
			continue
		}
		if err := it.open(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close goes on after an error, and returns them all.
func (p *parts) close(ctx context.Context) error {
	var errs []error
	for i := p.begun - 1; i >= 0; i-- {
		if flush := p.all[i].flush; flush != nil {
			errs = append(errs, flush(ctx))
		}
	}
	for ; p.begun > 0; p.begun-- {
		if end := p.all[p.begun-1].close; end != nil {
			errs = append(errs, end(ctx))
		}
	}
	return errors.Join(errs...)
}
