package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

func (p *platform) status() harness.Status {
	p.t.Helper()
	return p.admin.Status(p.t)
}

// atRest waits until the invoker has nothing to do, and fails when that never
// comes: a slot, a message or a megabyte is lost then.
func (p *platform) atRest() {
	peertest.Until(p.t, "the invoker does not come to rest", func() string {
		s := p.status()
		f, w := s.Kafka.Feed, s.Work
		memory := w.Pool.ReservedMB
		for _, c := range w.Containers {
			if c.Device == "" { // GPU containers are part of the reservation
				memory += c.MemoryMB
			}
		}
		switch {
		case w.InFlight > 0 || f.Open > 0:
			return fmt.Sprintf("%d activations in flight, %d open at the feed", w.InFlight, f.Open)
		case w.Pool.Waiting+w.Pool.Active+w.Pool.Removing > 0:
			return fmt.Sprintf("pool %+v", w.Pool)
		case memory != w.Pool.UsedMB:
			return fmt.Sprintf("containers hold %d MB, the pool counts %d", memory, w.Pool.UsedMB)
		case s.Kafka.Sends.Waiting > 0 || s.CouchDB.Writes.LastError != "":
			return fmt.Sprintf("%d acks wait, writes: %s", s.Kafka.Sends.Waiting, s.CouchDB.Writes.LastError)
		case f.Position < f.HighWatermark || f.Committed < f.Position:
			return fmt.Sprintf("committed %d, read %d of %d", f.Committed, f.Position, f.HighWatermark)
		}
		return ""
	})
}

// nothingLeft checks that no container and no process is left after the end.
func (p *platform) nothingLeft() {
	check.Equal(p.t, p.leftContainers(), "", "containers left")
	processes := peertest.Processes("HOME=" + p.dir)
	check.Equal(p.t, len(processes), 0, "processes left: %v", processes)
	dirs, _ := filepath.Glob(filepath.Join(p.dir, "processes", p.prefix(), "containers", "*"))
	check.Equal(p.t, len(dirs), 0, "directories of processes left: %v", dirs)
}

// leftContainers returns the daemon's containers of this invoker.
func (p *platform) leftContainers() string {
	if p.parts.docker == "" {
		return ""
	}
	var names []string
	for _, c := range p.parts.list(p.t, p.prefix()) {
		names = append(names, c.name)
	}
	return strings.Join(names, " ")
}

// noGoroutines waits until no more goroutines run than before.
func noGoroutines(t *testing.T, before int) {
	t.Helper()
	if left := goroutinesLeft(before); left != "" {
		t.Error(left)
	}
}

// goroutinesLeft returns the goroutines beyond the earlier number, if they do not end.
func goroutinesLeft(before int) string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(peertest.WaitLimit); runtime.NumGoroutine() > before; <-tick.C {
		http.DefaultClient.CloseIdleConnections()
		if time.Now().After(late) {
			stacks := make([]byte, 1<<20)
			return fmt.Sprintf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
	return ""
}
