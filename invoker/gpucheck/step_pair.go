package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// checkPair runs two processes on one device (D=2): each runs while the
// other's memory goes and comes, then both run at once.
func checkPair(ctx context.Context, b *bed, r *Result) error {
	_, err := runPair(ctx, b, r)
	return err
}

func runPair(ctx context.Context, b *bed, r *Result) (*pair, error) {
	bytes, err := b.fit(r, 2*min(b.s.Set, b.free/8))
	if err != nil {
		return nil, err
	}
	bytes /= 2
	if err := b.take(2 * (bytes + contextIf(b))); err != nil {
		return nil, err
	}
	var two [2]*guest
	var block [2]int
	for i := range two {
		if two[i], err = b.worker(ctx); err != nil {
			return nil, err
		}
		if block[i], err = two[i].filled(ctx, bytes, 11+i); err != nil {
			return nil, err
		}
	}
	passes, err := two[0].calibrate(ctx, block[0], b.s.RunTime)
	if err != nil {
		return nil, err
	}
	p := &pair{b: b, g: two, block: block, bytes: bytes, passes: passes, rounds: max(min(b.s.Rounds, 5), 2)}
	return p, p.judge(ctx, r)
}

// contextIf is what a context takes of a card; the fake driver's takes none.
func contextIf(b *bed) int64 {
	if b.fake {
		return 0
	}
	return contextBytes
}

type pair struct {
	b      *bed
	g      [2]*guest
	block  [2]int
	bytes  int64 // of a block
	passes int
	rounds int
	orders int
	wrong  int64
}

func (p *pair) judge(ctx context.Context, r *Result) error {
	t := r.table(fmt.Sprintf("Two processes of %s, %d passes a run", size(p.bytes), p.passes), "run of", "beside it", "median ms", "slowest ms")
	phases := []struct {
		of, beside string
		run        func(context.Context) ([]float64, error)
	}{
		{"first", "nothing", func(ctx context.Context) ([]float64, error) { return p.alone(ctx, 0) }},
		{"second", "nothing", func(ctx context.Context) ([]float64, error) { return p.alone(ctx, 1) }},
		{"first", "second goes and comes", func(ctx context.Context) ([]float64, error) { return p.beside(ctx, 0) }},
		{"second", "first goes and comes", func(ctx context.Context) ([]float64, error) { return p.beside(ctx, 1) }},
		{"both", "each other", p.both},
	}
	for _, ph := range phases {
		ms, err := ph.run(ctx)
		if err != nil {
			return fmt.Errorf("run of %s, beside it %s: %w", ph.of, ph.beside, err)
		}
		t.row(ph.of, ph.beside, fmt.Sprintf("%.2f", median(ms)), fmt.Sprintf("%.2f", quantile(1, ms)))
		if err := p.verify(ctx); err != nil {
			return err
		}
	}
	r.must("wrong words in both, after all", float64(p.wrong), "", "0", p.wrong == 0)
	r.must("orders carried out beside a run", float64(p.orders), "", fmt.Sprint(4*p.rounds), p.orders == 4*p.rounds)
	return nil
}

func (p *pair) verify(ctx context.Context) error {
	for i, g := range p.g {
		c, err := g.wrong(ctx, p.block[i])
		if err != nil {
			return err
		}
		p.wrong += c.Mismatches
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (p *pair) alone(ctx context.Context, who int) ([]float64, error) {
	var out []float64
	for range p.rounds {
		took, err := p.g[who].run(ctx, p.block[who], p.passes)
		if err != nil {
			return nil, err
		}
		out = append(out, ms(took))
	}
	return out, nil
}

// beside runs one while the other is moved out and in.
func (p *pair) beside(ctx context.Context, who int) ([]float64, error) {
	var out []float64
	for range p.rounds {
		moved := make(chan error, 1)
		go func() {
			_, err := p.b.evict(ctx, p.g[1-who].box)
			if err == nil {
				_, err = p.b.prefetch(ctx, p.g[1-who].box)
			}
			moved <- err
		}()
		took, err := p.g[who].run(ctx, p.block[who], p.passes)
		if err := errors.Join(err, <-moved); err != nil {
			return nil, err
		}
		p.orders += 2
		out = append(out, ms(took))
	}
	return out, nil
}

func (p *pair) both(ctx context.Context) ([]float64, error) {
	type one struct {
		took time.Duration
		err  error
	}
	var out []float64
	for range p.rounds {
		ended := make(chan one, 2)
		for i, g := range p.g {
			go func() {
				took, err := g.run(ctx, p.block[i], p.passes)
				ended <- one{took, err}
			}()
		}
		x, y := <-ended, <-ended
		if err := errors.Join(x.err, y.err); err != nil {
			return nil, err
		}
		out = append(out, ms(x.took), ms(y.took))
	}
	return out, nil
}
