package roster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// progressEvery is how often the progress of a pull is logged.
const progressEvery = 5 * time.Second

// Progress is a pull under way.
type Progress struct {
	image       string
	began       time.Time
	done, total atomic.Int64
}

// Set records how many bytes have arrived, and how many the image has as far as that is
// known.
func (p *Progress) Set(done, total int64) {
	p.done.Store(done)
	p.total.Store(total)
}

// Pulls lists the pulls under way, the oldest first.
func (r *Roster) Pulls() []container.Pull {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []container.Pull
	for p := range r.pulling {
		all = append(all, container.Pull{Image: p.image, Since: p.began, Bytes: p.done.Load(), Total: p.total.Load()})
	}
	slices.SortFunc(all, func(a, b container.Pull) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Image, b.Image))
	})
	return all
}

// Pull fetches an image. Callers that want the same image share one pull, which goes on
// when one caller gives up.
func (r *Roster) Pull(ctx context.Context, image string) error {
	done := r.pulls.DoChan(image, func() (any, error) {
		err, ended := errClosed, make(chan struct{})
		if r.Spawn(func() { defer close(ended); err = r.pull(image) }) {
			<-ended
		}
		return nil, err
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return fmt.Errorf("pull image %s: %w", image, result.Err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pull image %s: %w", image, context.Cause(ctx))
	}
}

func (r *Roster) pull(image string) (err error) {
	ctx, cancel := Limited(r.base, r.options.Timeouts.Pull)
	defer cancel()
	if r.options.Steps != nil {
		ended := r.options.Steps("invoker_"+r.options.Daemon+".pull", 0)
		defer func() { ended(err) }()
	}
	p := &Progress{image: image, began: time.Now()}
	r.mu.Lock()
	r.pulling[p] = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.pulling, p)
		r.mu.Unlock()
	}()
	r.options.Log.Info("pull image", "image", image)
	defer r.logProgress(p)()
	if err := r.options.Pull(ctx, image, p); err != nil {
		return err
	}
	r.options.Log.Info("pulled image", "image", image, "seconds", time.Since(p.began).Seconds())
	return nil
}

// logProgress logs the progress of a pull until stop is called.
func (r *Roster) logProgress(p *Progress) (stop func()) {
	ended, logged := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(logged)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				r.options.Log.Info("pulling image", "image", p.image, "megabytes", p.done.Load()>>20, "of", p.total.Load()>>20)
			}
		}
	}()
	return func() {
		close(ended)
		<-logged
	}
}
