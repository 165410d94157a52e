package devices

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// bare starts a program on the fake GPU in a container, past the shim.
func (b *fixture) bare(name string) *shimtest.Guest {
	b.t.Helper()
	cmd := exec.Command(filepath.Join(shimDir(b.t), "guest"))
	cmd.Env = slices.DeleteFunc(b.prepare(name, "managed").Env, func(v string) bool {
		return strings.HasPrefix(v, "LD_PRELOAD=")
	})
	return shimtest.Start(b.t, cmd)
}

// seesWhatIsThere has a program past the shim take memory without a report, then report
// that it has little of it, and end: the device's account counts.
func (b *fixture) seesWhatIsThere(g *shimtest.Guest) {
	b.t.Helper()
	g.Do("alloc %d", 160*mib)
	b.awaitUsage(g.PID(), 160*mib)
	events{b.Mover}.Usage(name, g.PID(), gpu.Usage{Allocated: mib, Resident: mib, Plain: mib, Context: mib})
	// Less its report, a context and the driver's own part.
	b.awaitUsage(hiddenPID(g.PID()), (160-1-1-64)*mib)
	g.Do("free 0")
	b.await("the end of the hidden memory", func(h gpu.MemoryReport) bool { return h.PID == hiddenPID(g.PID()) && h.Exited })
}

// TestSimulatedDeviceIsWatched: the memory of processes on a simulated device is
// counted without their reports, as NVML counts it on a real one.
func TestSimulatedDeviceIsWatched(t *testing.T) {
	b := open(t, nil)
	o := make(report, 1000)
	b.WatchSimulated(o)
	g := b.bare(name)
	b.seesWhatIsThere(g)
	g.Do("alloc %d", 80*mib)
	b.mu.Lock()
	b.containers[name].limit = 2 * mib
	b.mu.Unlock()
	over := b.await("the report on the limit", func(h gpu.MemoryReport) bool { return h.Over != "" })
	check.Contains(t, over.Over, "held 80 MB")
	check.Contains(t, over.Over, "limit of 2 MB")
	g.Kill()
	o.await(t, "used 0")
}

// TestForeignProcess finds a process of another name space by its files in /proc.
func TestForeignProcess(t *testing.T) {
	b := open(t, func(o *Options) { o.proc = t.TempDir() })
	b.shows(71, "status", "Name:\tx\nNSpid:\t71\t7\n")
	b.shows(72, "status", "Name:\ty\nNSpid:\t72\n")
	for inner, want := range map[int]int{7: 71, 72: 72, 71: 0} {
		check.Equal(t, foreignPID(b.options.proc, slotHolder{pid: inner}), want, "process %d", inner)
	}
}

// TestStateOfUnknownProcess: a file that is not whole, or has too large numbers, does no harm.
func TestStateOfUnknownProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), stateName)
	for what, c := range map[string]struct {
		text  []byte
		wrong bool
	}{
		"empty":       {nil, false},
		"of another":  {make([]byte, stateHeader+stateSlots*stateSlot), true},
		"cut off":     {binary.LittleEndian.AppendUint32(nil, stateMagic), true},
		"of the dead": {slices.Concat(binary.LittleEndian.AppendUint32(nil, stateMagic), slices.Repeat([]byte{255}, stateHeader+stateSlots*stateSlot)), false},
	} {
		check.NoError(t, os.WriteFile(path, c.text, 0o600))
		reported, err := readState(path)
		check.Equal(t, len(reported), 0, "%s", what)
		check.That(t, (err != nil) == c.wrong, "%s: %v, %v", what, reported, err)
	}
	_, err := readState(fmt.Sprint(path, "gone"))
	check.That(t, os.IsNotExist(err), "%v", err)
}

// report is an observer for a watcher's goroutines.
type report chan string

func (o report) put(s string) {
	select {
	case o <- s:
	default: // the reader has ended
	}
}

func (o report) Observe(r []gpu.Reading) {
	for _, x := range r {
		o.put(fmt.Sprintf("utilization %g", x.Utilization))
		o.put(fmt.Sprintf("used %d", x.Used))
	}
}
func (o report) DeviceLost(int, string) { o.put("lost") }
func (o report) DeviceBack(int)         { o.put("back") }

func (o report) await(t *testing.T, want string) {
	t.Helper()
	limit := time.After(testTimeout)
	for {
		select {
		case s := <-o:
			if s == want {
				return
			}
		case <-limit:
			t.Fatalf("%s is not reported", want)
		}
	}
}
