package pull

import (
	"maps"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/pull/slot"
)

// imagePause is how long an image that could not be pulled is not tried again. Its
// queue has no container, and a scheduler orders one more each 100 ms for such a one,
// as long as it has the queue.
const imagePause = 5 * time.Second

// failedImage is why a container of an image failed.
type failedImage struct {
	reason string
	at     time.Time
}

// imageFailed takes the ack of a creation whose image could not be used. The caller
// holds the lock.
func (p *Puller) imageFailed(o slot.Order) {
	a, err := o.Creation.MetaData.Decode(p.cfg.Manifest)
	if err != nil || !a.Exec.Pull {
		return
	}
	maps.DeleteFunc(p.images, func(_ string, f failedImage) bool { return time.Since(f.at) >= imagePause })
	p.images[a.Exec.Image] = failedImage{o.Reason, time.Now()}
}

// refusedImage gives the reason why an image is not tried now, "" where it is. The
// ack is to be an InvalidActionLimit: it reaches the callers in the same words as a
// BlackboxFailed, and its second one ends the queue, and with it the orders.
func (p *Puller) refusedImage(e activation.Exec) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, failed := p.images[e.Image]
	if !failed || !e.Pull || time.Since(f.at) >= imagePause {
		return ""
	}
	return f.reason
}
