package scheduler

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// linkSpeed is how fast a device's memory was measured to move.
type linkSpeed struct {
	link    gpu.TransferModel
	seen    float64 // bytes per second, smoothed
	applied float64 // the speed that time uses
}

// leastMeasured is the smallest move that the link's speed is learned from: a smaller
// one is mostly overhead.
const leastMeasured = 64 << 20

// learn applies a measured move. The speed that time uses changes only if the difference is
// more than small.
func (p *linkSpeed) learn(bytes int64, took time.Duration) {
	if bytes < leastMeasured || took <= 0 {
		return
	}
	const weight, little = 0.2, 0.1
	speed := float64(bytes) / took.Seconds()
	if p.seen == 0 {
		p.seen = speed
	}
	p.seen += weight * (speed - p.seen)
	if p.seen < p.applied*(1+little) && p.seen > p.applied*(1-little) {
		return
	}
	p.applied = p.seen
}

// time is how long a run waits for so many bytes.
func (p *linkSpeed) time(bytes int64) time.Duration {
	link := p.link
	link.BytesPerSecond = p.applied
	return link.Exposed(link.Transfer(bytes))
}
