package pull

import (
	"maps"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
)

// imagePause is the time until an image is tried again that could not be pulled. The
// image's queue has no container, and a scheduler orders a container every 100 ms for
// such a queue.
const imagePause = 5 * time.Second

// failedImage holds the reason why a container of an image failed.
type failedImage struct {
	reason   string
	failedAt time.Time
}

// imageFailed handles the ack of a creation whose image could not be used. The caller
// must hold the lock.
func (p *Puller) imageFailed(o slot.Order) {
	a, err := o.Creation.MetaData.Decode(p.cfg.Manifest)
	if err != nil || !a.Exec.Pull {
		return
	}
	maps.DeleteFunc(p.images, func(_ string, f failedImage) bool { return time.Since(f.failedAt) >= imagePause })
	p.images[a.Exec.Image] = failedImage{o.Reason, time.Now()}
}

// refusedImage returns the reason why an image is not tried now, or "". The ack must be
// an InvalidActionLimit: callers see the same text as for a BlackboxFailed, and the
// second such ack ends the queue and its orders.
func (p *Puller) refusedImage(e activation.Exec) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, failed := p.images[e.Image]
	if !failed || !e.Pull || time.Since(f.failedAt) >= imagePause {
		return ""
	}
	return f.reason
}
