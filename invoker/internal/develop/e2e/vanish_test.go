package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestVanishingContainers ends containers without the invoker: idle, paused, running and
// starting ones. An idle container is replaced without an effect on callers. The caller
// of a running one is answered at once.
func TestVanishingContainers(t *testing.T) {
	withEachParts(t, func(t *testing.T, w parts) {
		for _, c := range []struct {
			name  string
			grace string
			do    func(*testing.T, *platform)
		}{
			{"ready", "10 minutes", func(t *testing.T, p *platform) { p.at(t).vanishAtRest("ready") }},
			{"paused", "100 ms", func(t *testing.T, p *platform) { p.at(t).vanishAtRest("paused") }},
			{"running", "10 minutes", func(t *testing.T, p *platform) { p.at(t).vanishAtWork() }},
		} {
			t.Run(c.name, func(t *testing.T) {
				p := start(t, w, setup{env: map[string]string{"CONFIG_whisk_containerProxy_timeouts_pauseGrace": c.grace}})
				c.do(t, p)
			})
		}
	})
}

func (p *platform) vanishAtRest(state string) {
	p.create("resting", "nodejs:20", "let n = 0; function main() { return {n: ++n}; }", nil)
	ends := []func(string){p.remove, p.kill}
	if state == "paused" && p.parts.docker != "" {
		ends = ends[:1] // the kernel ends no process that is frozen
	}
	for i, end := range ends {
		p.call("resting", nil).want(p.t, 0, `{"n":1}`)
		name := p.container("guest_resting", state)
		end(name)
		o := p.call("resting", nil)
		o.want(p.t, 0, `{"n":1}`) // a new one, unnoticed by the caller
		p.container("guest_resting", state)
		p.atRest()
		if i+1 < len(ends) { // the next round begins with none
			p.remove(p.container("guest_resting", state))
			p.gone("guest_resting")
		}
	}
}

func (p *platform) vanishAtWork() {
	p.create("working", "python:3", "import time\ndef main(p):\n    print('begun', flush=True)\n    time.sleep(100)\n", limits(minutes, 0, 0))
	p.create("beginning", "python:3", "import time\ntime.sleep(100)\ndef main(p):\n    return {}\n", limits(minutes, 0, 0))
	for _, c := range []struct{ action, state, text string }{
		{"working", "running", textExited}, {"beginning", "warming", textNotBegun},
	} {
		for _, end := range []func(string){p.remove, p.kill} {
			id := p.started(c.action, nil, false)
			name := p.container("guest_"+c.action, c.state)
			p.inside(name)
			end(name)
			began := time.Now()
			o := p.finish(id)
			o.want(p.t, activation.StatusDeveloperError, c.text)
			check.AtMost(p.t, time.Since(began), peertest.WaitLimit/2, "%s: the answer took", c.action)
			p.atRest()
		}
	}
}

// container waits until the container of an action is in a state, and names
// it.
func (p *platform) container(suffix, state string) (name string) {
	p.t.Helper()
	p.admin.Await(p.t, "container "+suffix+" "+state, func(s harness.Status) bool {
		i := slices.IndexFunc(s.Work.Containers, func(c harness.Container) bool { return strings.HasSuffix(c.Name, suffix) && c.State == state })
		if i >= 0 {
			name = s.Work.Containers[i].Name
		}
		return i >= 0
	})
	return name
}

// gone waits until no container of an action is there.
func (p *platform) gone(suffix string) {
	p.t.Helper()
	p.admin.Await(p.t, "container "+suffix+" is gone", func(s harness.Status) bool {
		return !slices.ContainsFunc(s.Work.Containers, func(c harness.Container) bool { return strings.HasSuffix(c.Name, suffix) })
	})
}

// inside blocks until the action's own code runs. That code sleeps, and so does a process
// of the container: the leader, or a child of the leader if that is Docker's init.
func (p *platform) inside(name string) {
	p.t.Helper()
	peertest.Until(p.t, "the action in "+name, func() string {
		leader := p.leader(name)
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", leader, leader))
		var waits []string
		for _, pid := range append(strings.Fields(string(children)), strconv.Itoa(leader)) {
			stack, err := os.ReadFile("/proc/" + pid + "/wchan")
			if err == nil && strings.Contains(string(stack), "nanosleep") {
				return ""
			}
			waits = append(waits, fmt.Sprintf("%s in %q, %v", pid, stack, err))
		}
		return strings.Join(waits, "; ")
	})
}

// leader is the process that a container began with. The invoker lists a
// container before there is one.
func (p *platform) leader(name string) (pid int) {
	p.t.Helper()
	peertest.Until(p.t, "a process of "+name, func() string {
		if p.parts.docker != "" {
			if pid = p.parts.leaderOf(p.t, name); pid == 0 {
				return "none"
			}
			return ""
		}
		all := slices.Sorted(maps.Keys(peertest.Processes("GPUWHISK_CONTAINER=" + name + ".")))
		if len(all) == 0 {
			return "not found"
		}
		pid = all[0]
		return ""
	})
	return pid
}

// remove ends a container and takes it away.
func (p *platform) remove(name string) {
	p.t.Helper()
	if p.parts.docker == "" {
		p.kill(name)
		return
	}
	p.parts.removeContainer(p.t, p.parts.find(p.t, name).id)
}

// kill ends the first process of a container, as the kernel would.
func (p *platform) kill(name string) {
	p.t.Helper()
	pid := p.leader(name)
	check.NoError(p.t, syscall.Kill(pid, syscall.SIGKILL))
	// Until the kernel has ended it a request could still reach it.
	peertest.Until(p.t, "the end of "+name, func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") && len(threads) == 1 {
			return ""
		}
		return fmt.Sprintf("%d threads live", len(threads))
	})
}
