package devices

import (
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// The containers that run on a device share it: each may have what the others leave
// that run, of the device and of what its namespace may have there, but what it was
// promised in any case, whatever others say of themselves. What idle ones have
// there is moved out for them; that is the lane's to see to.

// runs notes that a run begins in a container, for which so much was set aside, or
// has ended.
func (m *Mover) runs(b *box, change int, promised int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.runs += change; b.runs == 0 {
		b.promised = 0
	}
	b.promised = max(b.promised, promised)
	if over := m.allot(b); over != "" {
		m.told(b, over)
	}
}

// allot tells the containers that run on a container's device what each may have,
// and says, once, that those of a namespace hold too much where this one's news
// have brought them there. The caller holds b.mu.
func (m *Mover) allot(b *box) (over string) {
	m.tenants.Lock()
	defer m.tenants.Unlock()
	b.running, b.held, b.least = b.runs > 0, b.total(m.options.Context), b.promised
	left := b.device.MemoryBytes
	var running []*box
	for _, o := range m.all() {
		if o.device.Index != b.device.Index {
			continue
		}
		left -= m.options.Context
		if o.running {
			running = append(running, o)
			left -= o.share()
		}
	}
	for _, o := range running {
		part := min(o.own, left+o.share())
		if o.tenant != "" {
			part = min(part, o.most-o.others(running, (*box).share))
		}
		// 0 would be no limit.
		if part = max(part, min(o.least, o.own), 1); part != o.part && o.own > 0 && !o.deaf() {
			o.part = part
			o.shim.Limit(part, o.host)
		}
	}
	if b.tenant == "" || b.over || !b.running {
		return ""
	}
	held := b.held + b.others(running, func(o *box) int64 { return o.held })
	if held <= b.most {
		return ""
	}
	b.over = true
	return fmt.Sprintf("The running actions of the namespace %s held %s of GPU memory together, more than its limit of %s (whisk.gpu.namespace-limits).",
		b.tenant, activation.Size(held), activation.Size(b.most))
}

// share is what a running container has of its device, or was promised. The caller
// holds Mover.tenants.
func (b *box) share() int64 { return max(b.held, b.least) }

// others sums up what the others of a container's namespace have, of those that run.
func (b *box) others(running []*box, of func(*box) int64) (sum int64) {
	for _, o := range running {
		if o != b && o.tenant == b.tenant {
			sum += of(o)
		}
	}
	return sum
}

// total is what the container's processes hold, by their word and beyond it. The
// caller holds b.mu.
func (b *box) total(context int64) (sum int64) {
	for _, u := range b.holds {
		sum = min(sum+u.Allocated, mostHeld)
	}
	for pid, bytes := range b.seen {
		if pid > 0 { // nobody has said what of it is a context
			bytes = max(bytes-context-unsaid, 0)
		}
		sum = min(sum+bytes, mostHeld)
	}
	return sum
}
