package devices

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// The shim refuses memory beyond a limit. A container that uses more all the same, by
// its own reports or by NVML's, is ended.

// unreportedBytes is the memory that NVML may list of a process beyond its own and its
// context.
const unreportedBytes = 64 << 20

// overByReport returns, once, that the container's processes use more than they may
// by their own reports. The caller holds m.mu.
func (b *gpuContainer) overByReport() string {
	sum, pinned := int64(0), int64(0)
	slack := int64(len(b.usage)) // a process that was granted nothing may take a byte
	for _, u := range b.usage {
		sum += u.Allocated
		pinned += u.Pinned
	}
	if b.host > 0 && pinned > b.host+slack && !b.overReported {
		b.overReported = true
		return fmt.Sprintf("The action has pinned %s of host memory, more than its memory limit of %s (limits, key memory).",
			activation.Size(pinned), activation.Size(b.host))
	}
	return b.beyond(sum, b.limit+slack)
}

// overByNVML returns the same by NVML's list of its processes, which has all but
// managed memory. Managed memory is added as it is reported, or found beyond all lists:
// then the reports may be later than the list, so it must be too much in some readings in
// a row. The caller holds m.mu.
func (b *gpuContainer) overByNVML(found map[int]observed, context int64) string {
	managed := b.unlisted.least()
	for _, u := range b.usage {
		managed = min(managed+u.Managed(), maxUsed)
	}
	sum := sumOf(found)
	b.learn(found, context, b.limit == 0 || sum+managed <= b.listable(found, context))
	allowed := b.listable(found, context)
	if over := b.beyond(sum, allowed); over != "" {
		return over
	}
	if b.beyondLimit++; sum+managed <= allowed {
		b.beyondLimit = 0
	}
	if b.beyondLimit < readings {
		return ""
	}
	return b.beyond(sum+managed, allowed)
}

// readings is how many readings in a row must agree where lists of the driver are
// compared with reports of processes.
const readings = 3

// lastReadings has the last ones of a number.
type lastReadings [readings]int64

func (l *lastReadings) add(n int64) { *l = lastReadings{l[1], l[2], n} }

func (l *lastReadings) least() int64 { return slices.Min(l[:]) }

// unlistedLeast is the memory that a device may have in use for the driver itself: the driver's
// own part. Beside it there is a share of all managed memory, for its page tables.
const (
	unlistedLeast = 128 << 20
	unlistedShare = 16
)

// unlisted returns how much of the used bytes the driver does not list for processes and
// the containers do not report as managed memory. Managed memory counts also where it was
// moved out, because the driver may keep the emptied pages. A negative use is unknown.
func (m *Mover) unlisted(used, listed int64, containers ...*gpuContainer) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := used - unlistedLeast - listed
	for _, b := range containers {
		for _, u := range b.usage {
			rest -= u.Managed() + u.Managed()/unlistedShare
		}
	}
	return max(rest, 0)
}

// listable returns the most memory that NVML may list of the container's processes at their
// limit.
func (b *gpuContainer) listable(found map[int]observed, context int64) int64 {
	most := b.limit
	for key, s := range found {
		most += max(int64(s.processes)*(context+unreportedBytes), b.beside[key].bytes)
	}
	return most
}

// beside is the memory of a reporting process beyond its report, or of all processes that
// are counted together.
type beside struct {
	bytes     int64 // the most that was seen
	processes int
	until     int // it is learned until so many runs have ended
}

// learningRuns is the number of runs in which a process may load its libraries.
const learningRuns = 3

// learn stores the most memory that processes have beyond their reports: modules and
// libraries, which their limit does not count. After the first runs of a process, learn
// ignores memory beyond the limit, so that a process that takes memory past the shim is found.
// learn is a no-op for simulated devices, because nothing loads libraries there. The caller
// must hold m.mu.
func (b *gpuContainer) learn(found map[int]observed, context int64, within bool) {
	if b.device.Simulated {
		return
	}
	for key, s := range found {
		usages := b.reportedBy(key)
		if len(usages) == 0 {
			continue
		}
		bytes := s.bytes
		for _, u := range usages {
			bytes -= u.Listed()
		}
		learned, known := b.beside[key]
		if !known || s.processes > learned.processes {
			learned.processes, learned.until = s.processes, b.ended+learningRuns
		}
		if within || b.ended < learned.until {
			learned.bytes = max(learned.bytes, min(bytes, int64(s.processes)*(context+shimctl.LibraryBytes)))
		}
		b.beside[key] = learned
	}
}

// reportOver has a container ended that uses too much.
func (m *Mover) reportOver(b *gpuContainer, over string) {
	m.report(gpu.MemoryReport{Container: b.name, PID: assumedPID, Over: over})
}

func (b *gpuContainer) beyond(sum, allowed int64) string {
	if b.limit == 0 || b.overReported || sum <= allowed {
		return ""
	}
	b.overReported = true
	return fmt.Sprintf("The action held %s of GPU memory, more than its limit of %s (annotation gpu, key limit, or whisk.gpu.limits).",
		activation.Size(sum), activation.Size(b.limit))
}

// hidden returns the memory of reporting processes on the device beyond their reports, by
// NVML, which lists all but managed memory. The caller holds m.mu.
func (b *gpuContainer) hidden(key int, bytes int64, context int64) int64 {
	for _, u := range b.reportedBy(key) {
		bytes -= u.Listed() + max(u.Context, context) + unreportedBytes
	}
	return max(bytes, 0)
}

// hiddenPID stands for the memory of a process beyond its report.
func hiddenPID(pid int) int { return -pid }

// unlistedPID stands for memory of a container that the driver lists for no process.
const unlistedPID = math.MinInt32

// uncharge lowers the memory that was seen of a container beyond its reports by the new
// report of a process, so that memory of a late report counts once. The caller holds m.mu.
func (m *Mover) uncharge(b *gpuContainer, pid int, before, now gpu.Usage) {
	key := min(pid, shimctl.Outside)
	m.lower(b, hiddenPID(key), b.hidden(key, b.listing[key].bytes, m.options.Context))
	m.lower(b, unlistedPID, b.listedOnly[unlistedPID]-max(0, now.Managed()-before.Managed()))
}

// lower lowers the memory that was seen to so many bytes. The caller holds m.mu.
func (m *Mover) lower(b *gpuContainer, pid int, bytes int64) {
	switch before, seen := b.listedOnly[pid]; {
	case !seen || bytes >= before:
	case bytes <= 0:
		m.unseen(b, pid)
	default:
		m.charged(b, pid, bytes)
	}
}

// charged reports bytes that are seen and not reported. The caller holds
// m.mu.
func (m *Mover) charged(b *gpuContainer, pid int, bytes int64) {
	if before, known := b.listedOnly[pid]; known && max(before-bytes, bytes-before) < minChange {
		return
	}
	b.listedOnly[pid] = bytes
	m.report(gpu.MemoryReport{Container: b.name, PID: pid, Usage: gpu.Usage{Allocated: bytes, Resident: bytes}})
}

// The running containers share their device. Each may use the rest that the others leave of
// the device and of its namespace's limit, and at least the reservation of its runs,
// whatever others report. The scheduler moves out the memory of idle containers.
//
// A namespace's limit is granted in parts whose sum is at most the limit. A container that
// runs alone is granted the whole limit. A container that joins others is granted the part
// that they cannot come to hold. If a container wants more, the others confirm their memory
// and it is granted the rest. So containers that allocate at the same time cannot exceed the
// limit together. One case exceeds it: another container took the memory that was reserved
// for a run before it read that the run had begun. No container within its grant is ended
// for this.

// runs counts a run that begins in a container, for which so much was reserved, or
// has ended.
func (m *Mover) runs(b *gpuContainer, change int, promised int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.runs += change; b.runs == 0 {
		b.promised = 0
	} else if b.runs == change { // its first
		b.granted = m.left(b, m.running(b))
	}
	b.ended += max(-change, 0)
	b.promised = max(b.promised, promised)
	m.allot(b)
}

// running are the containers that run on a container's device. The caller holds m.mu.
func (m *Mover) running(b *gpuContainer) (all []*gpuContainer) {
	for _, o := range m.containers {
		if o.device.Index == b.device.Index && o.runs > 0 {
			all = append(all, o)
		}
	}
	return all
}

// allot sends the containers that run on a container's device their shares, and
// reports, once, that the container uses too much of its namespace's limit, if it does.
// The caller holds m.mu.
func (m *Mover) allot(b *gpuContainer) {
	context, left := m.options.Context, b.device.MemoryBytes
	for _, o := range m.containers {
		if o.device.Index == b.device.Index {
			left -= context
		}
	}
	running := m.running(b)
	for _, o := range running {
		left -= o.share(context)
	}
	for _, o := range running {
		part := min(o.own, left+o.share(context))
		if o.tenant != "" {
			part = min(part, o.most-o.others(running, func(x *gpuContainer) int64 { return x.holds(context) }))
		}
		// 0 would be no limit.
		least := max(min(o.promised, o.own), 1)
		o.grant(running, max(part, least), least)
	}
	if over := b.overTenant(running, context); over != "" {
		m.reportOver(b, over)
	}
}

// grant sends a running container that it may use so much, and how much of it without a
// question: all where no other of its namespace runs. The caller holds m.mu.
func (b *gpuContainer) grant(running []*gpuContainer, part, least int64) {
	granted := part
	if b.tenant != "" && slices.ContainsFunc(running, func(o *gpuContainer) bool { return o != b && o.tenant == b.tenant }) {
		granted = max(min(b.granted, part), least)
	}
	if b.own > 0 && !b.noShim() {
		b.allowed, b.granted = part, granted
		b.shim.Grant(granted, part, b.host)
	}
}

// left is the part of a namespace's limit that the other running containers cannot come to
// hold by their grants. The caller holds m.mu.
func (m *Mover) left(b *gpuContainer, running []*gpuContainer) int64 {
	return b.most - b.others(running, func(o *gpuContainer) int64 {
		bytes := o.holds(m.options.Context)
		if !o.noShim() {
			bytes = max(bytes, o.shim.Bound())
		}
		return bytes
	})
}

// Wants has the other running containers of a namespace confirm their memory, and grants the
// asking container the rest of the limit. Containers are answered one after the other.
func (e events) Wants(name string) {
	m := e.m
	b := m.container(name)
	if b == nil || b.tenant == "" {
		return
	}
	b.asking.Lock()
	defer b.asking.Unlock()
	m.mu.Lock()
	var confirm sync.WaitGroup
	for _, o := range m.running(b) {
		if o != b && o.tenant == b.tenant && !o.noShim() {
			o.granted = min(o.granted, o.holds(m.options.Context))
			o.shim.Grant(o.granted, o.allowed, o.host)
			confirm.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), m.options.confirmTime)
				defer cancel()
				_, _ = o.shim.Report(ctx) // without its answer it counts as holding its old grant
			})
		}
	}
	m.mu.Unlock()
	confirm.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	running := m.running(b)
	b.granted = m.left(b, running)
	if b.runs == 0 {
		b.grant(running, b.allowed, 1)
	}
	m.allot(b)
}

// overTenant returns, once, that the running containers of a namespace use more than its
// limit and this container more than its grant, or without a shim more than its
// reservation, if they do. The caller holds m.mu.
func (b *gpuContainer) overTenant(running []*gpuContainer, context int64) string {
	if b.tenant == "" || b.overReported || b.runs == 0 {
		return ""
	}
	own := b.counted(context)
	all := own + b.others(running, func(o *gpuContainer) int64 { return o.counted(context) })
	granted := b.promised
	if !b.noShim() {
		granted = b.shim.Bound()
	}
	if all <= b.most || own <= granted {
		return ""
	}
	b.overReported = true
	return fmt.Sprintf("The running actions of the namespace %s held %s of GPU memory together, more than its limit of %s (whisk.gpu.namespace-limits).",
		b.tenant, activation.Size(all), activation.Size(b.most))
}

// holds is the part of its namespace's limit that a running container uses, or its
// reservation. The caller holds m.mu.
func (b *gpuContainer) holds(context int64) int64 { return max(b.counted(context), b.promised) }

// share is the memory that a running container uses of its device, or its reservation.
// The caller holds Mover.mu.
func (b *gpuContainer) share(context int64) int64 { return max(b.total(context), b.promised) }

// others sums up a figure of the other running containers of a namespace.
func (b *gpuContainer) others(running []*gpuContainer, of func(*gpuContainer) int64) (sum int64) {
	for _, o := range running {
		if o != b && o.tenant == b.tenant {
			sum += of(o)
		}
	}
	return sum
}

// counted is the container's memory that a limit counts: all but the libraries' part. The
// caller holds m.mu.
func (b *gpuContainer) counted(context int64) int64 {
	sum := b.total(context)
	for key, learned := range b.beside {
		sum -= min(b.listedOnly[hiddenPID(key)], max(learned.bytes-context-unreportedBytes, 0))
	}
	return sum
}

// total is the memory of the container's processes, reported and unreported. The caller
// holds m.mu.
func (b *gpuContainer) total(context int64) (sum int64) {
	for _, u := range b.usage {
		sum = min(sum+u.Allocated, maxUsed)
	}
	for pid, bytes := range b.listedOnly {
		if pid > 0 { // a context is part of it
			bytes = max(bytes-context-unreportedBytes, 0)
		}
		sum = min(sum+bytes, maxUsed)
	}
	return sum
}
