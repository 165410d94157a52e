package invoker

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/outage"
)

// parker puts messages on the shelf beside the dispatcher, many at a time, and
// tries again for as long as that fails. A goroutine of its own works while
// there is something to do.
type parker struct {
	shelf  Shelf
	post   func(event)
	goWork func(func(ctx context.Context))

	mu      sync.Mutex
	waiting []*job
	busy    bool
}

// What is parked at a time: the disk is waited for once for all of them.
const (
	parkTogether = 256
	parkBytes    = 4 << 20
)

// parkPause bounds the pause before parking is tried again.
const (
	parkPauseMin = 500 * time.Millisecond
	parkPauseMax = 10 * time.Second
)

// add has a job's message parked; the answer is an event.
func (p *parker) add(j *job) {
	p.mu.Lock()
	p.waiting = append(p.waiting, j)
	start := !p.busy
	p.busy = true
	p.mu.Unlock()
	if start {
		p.goWork(p.work)
	}
}

func (p *parker) work(ctx context.Context) {
	pace := outage.Pace{Min: parkPauseMin, Max: parkPauseMax}
	for {
		jobs := p.next()
		if len(jobs) == 0 {
			return
		}
		done, failed, err := p.park(jobs)
		p.post(shelvedNews{done, err})
		if err == nil {
			pace.Reset()
			continue
		}
		p.back(failed)
		if !outage.Wait(ctx, pace.Next()) {
			return
		}
		p.prune()
	}
}

// next takes the first jobs; none, and the work ends.
func (p *parker) next() []*job {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes := 0, int64(0)
	for n < min(len(p.waiting), parkTogether) && bytes < parkBytes {
		bytes += size(p.waiting[n].Message)
		n++
	}
	jobs := p.waiting[:n:n]
	p.waiting = p.waiting[n:]
	if n == 0 {
		p.busy, p.waiting = false, nil
	}
	return jobs
}

// park tells which messages are parked, which are not, and why.
func (p *parker) park(jobs []*job) (done, failed []*job, err error) {
	ids, texts := make([]activation.ID, len(jobs)), make([][]byte, len(jobs))
	for i, j := range jobs {
		ids[i], texts[i] = j.ActivationID, j.Message.Encode()
	}
	for i, e := range p.shelf.Park(ids, texts) {
		switch {
		case e == nil:
			done = append(done, jobs[i])
		case jobs[i].open(): // else it went its way meanwhile
			failed, err = append(failed, jobs[i]), e
		}
	}
	return done, failed, err
}

func (p *parker) back(jobs []*job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(jobs, p.waiting...)
}

// prune drops those that were answered meanwhile.
func (p *parker) prune() {
	p.mu.Lock()
	defer p.mu.Unlock()
	var open []*job
	for _, j := range p.waiting {
		if j.open() {
			open = append(open, j)
		}
	}
	p.waiting = open
}
