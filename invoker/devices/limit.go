package devices

import (
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// The shim refuses what goes beyond a limit. Who holds more all the same, by
// its own word or by NVML's, is ended.

// unsaid is what NVML may show of a process beyond its memory and context.
const unsaid = 64 << 20

// overByWord says, once, that the container's processes hold more than they may
// by their own word. The caller holds b.mu.
func (b *box) overByWord() string {
	sum, pinned := int64(0), int64(0)
	for _, u := range b.holds {
		sum += u.Allocated
		pinned += u.Pinned
	}
	if b.host > 0 && pinned > b.host && !b.over {
		b.over = true
		return fmt.Sprintf("The action has pinned %s of host memory, more than its memory limit of %s (limits, key memory).",
			activation.Size(pinned), activation.Size(b.host))
	}
	return b.beyond(sum, sum > b.limit)
}

// overBySight says the same of what NVML shows of its processes, with their
// contexts. The caller holds b.mu.
func (b *box) overBySight(found map[int]sight, context int64) string {
	sum, allowed := int64(0), b.limit
	for _, s := range found {
		sum += s.bytes
		allowed += int64(s.processes) * (context + unsaid)
	}
	return b.beyond(sum, sum > allowed)
}

// told has a container ended that holds too much.
func (m *Mover) told(b *box, over string) {
	m.hear(gpu.Held{Container: b.name, PID: assumedPID, Over: over})
}

func (b *box) beyond(sum int64, is bool) string {
	if b.limit == 0 || b.over || !is {
		return ""
	}
	b.over = true
	return fmt.Sprintf("The action held %s of GPU memory, more than its limit of %s (annotation gpu, key limit, or whisk.gpu.limits).",
		activation.Size(sum), activation.Size(b.limit))
}

// hidden is what processes that talk have on the device beyond their word, as
// NVML shows it. What was moved out may still show there, so all that they have
// allocated is allowed for. The caller holds b.mu.
func (b *box) hidden(place int, bytes int64, context int64) int64 {
	for _, u := range b.speakers(place) {
		bytes -= u.Allocated + max(u.Context, context) + unsaid
	}
	return max(bytes, 0)
}

// hiddenPID stands in the books for what a process does not tell: it is of the
// same process, beside what it tells.
func hiddenPID(pid int) int { return -pid }

// charged tells the books of bytes that are seen and not told. The caller holds
// b.mu.
func (m *Mover) charged(b *box, pid int, bytes int64) {
	if before, known := b.seen[pid]; known && max(before-bytes, bytes-before) < shown {
		return
	}
	b.seen[pid] = bytes
	m.hear(gpu.Held{Container: b.name, PID: pid, Usage: gpu.Usage{Allocated: bytes, Resident: bytes}})
}
