package devices

import (
	"context"
	"errors"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestOutside: where the host's processes are not seen the engine reports their
// container, and the usage of all of its processes is compared with their reports.
func TestOutside(t *testing.T) {
	b := open(t, func(o *Options) { o.proc = t.TempDir() }) // shows no process
	b.prepare("reports", "managed")
	b.prepare("static", "managed")
	asked, away := 0, false
	b.Ask(func(_ context.Context, name string) ([]int, uint64, error) {
		asked++
		if away {
			return nil, 0, errors.New("no answer")
		}
		return map[string][]int{"reports": {801, 802}, "static": {900}}[name], 0, nil
	})
	const first, second = shimctl.Outside + 2, shimctl.Outside + 7
	for _, pid := range []int{first, second} {
		events{b.Mover}.Usage("reports", pid, gpu.Usage{Allocated: 30 * mib, Resident: 30 * mib, Plain: 30 * mib, Context: mib})
	}
	received := func() (got []gpu.MemoryReport) {
		for len(b.reports) > 0 {
			if h := <-b.reports; h.PID != first && h.PID != second {
				got = append(got, h)
			}
		}
		return got
	}
	read := func(of ...nvml.Process) { b.observe([]nvml.Reading{{Listed: true, Processes: of}}) }
	expect := func(what string, want ...gpu.MemoryReport) {
		t.Helper()
		check.EqualSlices(t, received(), want, "%s: reported", what)
	}
	of := func(name string, pid int, bytes int64) gpu.MemoryReport {
		return gpu.MemoryReport{Container: name, PID: pid, Usage: gpu.Usage{Allocated: bytes, Resident: bytes}}
	}
	away = true
	read(nvml.Process{PID: 900, Bytes: 40 * mib})
	expect("an engine that does not answer")
	away = false
	read(nvml.Process{PID: 900, Bytes: 40 * mib}, nvml.Process{PID: 7, Bytes: mib})
	expect("a container that reports nothing", of("static", shimctl.Outside, 40*mib))
	before := asked
	read(nvml.Process{PID: 900, Bytes: 41 * mib}, nvml.Process{PID: 7, Bytes: mib})
	expect("the same")
	check.Equal(t, asked, before, "questions about processes that are known")
	// Two contexts and twice what a driver may need for itself are allowed for.
	read(nvml.Process{PID: 801, Bytes: 95 * mib}, nvml.Process{PID: 802, Bytes: 95 * mib})
	expect("gone, and the reported memory", gpu.MemoryReport{Container: "static", PID: shimctl.Outside, Exited: true})
	read(nvml.Process{PID: 801, Bytes: 95 * mib}, nvml.Process{PID: 802, Bytes: 200 * mib})
	expect("more than is reported", of("reports", hiddenPID(shimctl.Outside), (295-2*(30+1+64))*mib))
	read()
	expect("nothing any more", gpu.MemoryReport{Container: "reports", PID: hiddenPID(shimctl.Outside), Exited: true})
	// A process that begins to report is charged by its report alone, from then on.
	read(nvml.Process{PID: 900, Bytes: 40 * mib})
	events{b.Mover}.Usage("static", first, gpu.Usage{Allocated: 40 * mib, Resident: 40 * mib})
	expect("a container that reports now", of("static", shimctl.Outside, 40*mib), gpu.MemoryReport{Container: "static", PID: shimctl.Outside, Exited: true})
}
