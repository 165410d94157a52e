package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// counting reports how often its container has run it, and prints it.
const counting = "let n = 0; function main() { console.log('run', ++n); return {n}; }"

// cold reports whether a run had to initialise its container.
func (o outcome) cold() bool {
	_, ok := o.record.Annotations.Get("initTime")
	return ok
}

// wantWarm checks that a run was its container's nth and printed just that.
func (o outcome) wantWarm(t *testing.T, n int) {
	t.Helper()
	o.want(t, 0, fmt.Sprintf(`{"n":%d}`, n))
	check.That(t, !o.cold(), "run %d began with an initialisation", n)
	wantLine(t, o.record.Logs, fmt.Sprint("run ", n))
}

// wantLine checks that a log is one line, and how that ends.
func wantLine(t *testing.T, log []string, end string) {
	t.Helper()
	check.Equal(t, len(log), 1, "log %q", log)
	check.That(t, strings.HasSuffix(strings.Join(log, "\n"), end), "log %q, want %q at its end", log, end)
}

func (p *platform) containers() string {
	p.t.Helper()
	return p.ids(func(string) bool { return true })
}

// idOf is the engine's id of an action's only container.
func (p *platform) idOf(suffix string) string {
	p.t.Helper()
	return p.ids(func(name string) bool { return strings.HasSuffix(name, suffix) })
}

// ids lists the containers whose names are wanted, each in a line.
func (p *platform) ids(wanted func(name string) bool) string {
	p.t.Helper()
	var ids []string
	for _, c := range p.parts.list(p.t, p.prefix()) {
		if wanted(c.name) {
			ids = append(ids, c.id)
		}
	}
	return strings.Join(ids, "\n")
}

// stateFiles is the directory of the files about containers.
func (p *platform) stateFiles() string {
	p.t.Helper()
	found, err := filepath.Glob(filepath.Join(p.dir, "state", "*", "journal", "containers"))
	check.NoError(p.t, err)
	check.Equal(check.Must(p.t), len(found), 1, "state files at %v", found)
	return found[0]
}

// awaitIdleState waits until the state file of an action's only container has it
// idle. An invoker that is killed before then leaves it to no other.
func (p *platform) awaitIdleState(suffix string) {
	p.t.Helper()
	peertest.Until(p.t, "the state file has it idle: "+suffix, func() string {
		found, err := filepath.Glob(filepath.Join(p.stateFiles(), "*"+suffix+".note"))
		if err != nil || len(found) != 1 {
			return fmt.Sprintf("state files %v, %v", found, err)
		}
		text, err := os.ReadFile(found[0])
		if err != nil || !strings.HasPrefix(string(text), "r ") {
			return fmt.Sprintf("%.30q, %v", text, err)
		}
		return ""
	})
}

// TestKilledInvokerLeavesWarmth: a container that was idle when an invoker was killed
// serves the next one warm, running or paused, without earlier lines in its logs. A busy
// container is gone, and its activation has one record.
func TestKilledInvokerLeavesWarmth(t *testing.T) {
	for grace, state := range map[string]string{"10 minutes": "ready", "100 ms": "paused"} {
		t.Run(state, func(t *testing.T) {
			p := start(t, realParts(t), setup{child: true, memory: memoryForAll, env: map[string]string{
				"CONFIG_whisk_containerProxy_timeouts_pauseGrace": grace}})
			p.create("warm", "nodejs:20", counting, nil)
			p.create("other", "nodejs:20", counting, nil)
			p.create("busy", "python:3", sleeps, limits(minutes, 0, 0))
			p.call("warm", nil).want(t, 0, `{"n":1}`)
			p.call("warm", nil).wantWarm(t, 2)
			p.call("other", nil).want(t, 0, `{"n":1}`)
			running := p.started("busy", nil, false)
			p.inside(p.container("guest_busy", "running"))
			p.container("guest_warm", state)
			p.container("guest_other", state)
			p.awaitIdleState("guest_warm")
			p.awaitIdleState("guest_other")
			warm, busy := p.idOf("guest_warm"), p.idOf("guest_busy")
			check.NoError(t, p.child.end(syscall.SIGKILL))
			p.parts.removeContainer(t, p.idOf("guest_other")) // as if it had died meanwhile
			p.child.again()
			p.call("warm", nil).wantWarm(t, 3)
			p.call("other", nil).want(t, 0, `{"n":1}`)
			p.finish(running).want(t, activation.StatusWhiskError, "The invoker ended while the action ran.")
			peertest.Until(t, "the busy container goes", func() string {
				if all := p.containers(); strings.Contains(all, busy) || !strings.Contains(all, warm) {
					return fmt.Sprintf("there are %s, of before are %s and %s", all, warm, busy)
				}
				return ""
			})
			check.AtLeast(t, p.metric("gpuwhisk_containers_adopted_total", ""), 1)
		})
	}
}

// TestUpgradeUnderLoadStaysWarm: SIGTERM, and another process, while calls come
// without a pause: no function that was warm starts cold, and each call has its
// record.
func TestUpgradeUnderLoadStaysWarm(t *testing.T) {
	p := start(t, realParts(t), setup{child: true, memory: memoryForAll})
	const functions, calls = 3, 12
	for i := range functions {
		p.create(fmt.Sprint("f", i), "nodejs:20", "let n = 0; const main = () => new Promise(done => setTimeout(() => done({n: ++n}), 100))", nil)
		p.call(fmt.Sprint("f", i), nil)
	}
	var ids []activation.ID
	load := func() {
		for i := range calls {
			ids = append(ids, p.started(fmt.Sprint("f", i%functions), nil, false))
		}
	}
	// One container of each is warm; more of them may start cold when several
	// calls of a function run at once, so they come one after the other.
	p.started("f0", nil, false)
	load()
	check.NoError(t, p.child.end(syscall.SIGTERM))
	warm := strings.Fields(p.containers())
	check.AtLeast(t, len(warm), functions, "left: %v", warm)
	p.child.again()
	for _, id := range ids {
		p.finish(id)
	}
	for i := range functions {
		o := p.call(fmt.Sprint("f", i), nil)
		check.That(t, !o.cold(), "f%d is cold after the upgrade", i)
	}
	all := p.containers()
	for _, id := range warm {
		check.Contains(t, all, id, "a container was warm and is gone")
	}
}

// TestStrangersAreNotAdopted: a container is adopted only if its settings are equal to
// the last byte. A doubtful container is removed.
func TestStrangersAreNotAdopted(t *testing.T) {
	w := realParts(t)
	p := start(t, w, setup{child: true, memory: memoryForAll})
	for _, name := range []string{"same", "revised", "rewritten", "emptied", "resized"} {
		p.create(name, "nodejs:20", counting, nil)
		p.call(name, nil).want(t, 0, `{"n":1}`)
		p.container("guest_"+name, "ready")
	}
	check.NoError(t, p.child.end(syscall.SIGKILL))
	p.create("revised", "nodejs:20", counting, nil)        // another revision
	p.change("rewritten", func(annotation []byte) []byte { // another namespace, as it were
		at := bytes.Index(annotation, []byte(`"key":"`)) + len(`"key":"`)
		annotation[at] ^= 1
		return annotation
	})
	p.change("emptied", func([]byte) []byte { return nil })
	p.change("resized", func(annotation []byte) []byte {
		return bytes.Replace(annotation, []byte(`"memoryMB":256`), []byte(`"memoryMB":128`), 1)
	})
	before := map[string]string{}
	for _, name := range []string{"emptied", "resized"} {
		before[name] = p.idOf("guest_" + name)
	}
	p.child.again()
	p.call("same", nil).wantWarm(t, 2)
	for _, name := range []string{"revised", "rewritten", "emptied", "resized"} {
		p.call(name, nil).want(t, 0, `{"n":1}`)
	}
	for name, id := range before {
		peertest.Until(t, name, func() string {
			if strings.Contains(p.containers(), id) {
				return "its old container is there"
			}
			return ""
		})
	}
	// No container is adopted after a change of the settings that it was made with.
	network := "network=default"
	if w.containerd != "" {
		network = "dnsServers_0=192.0.2.1" // network is a setting of Docker
	}
	for _, setting := range []string{"extraEnvVars_0=NEW=1", network} {
		check.NoError(t, p.child.end(syscall.SIGTERM))
		p.child.environ = append(p.child.environ, "CONFIG_whisk_containerFactory_containerArgs_"+setting)
		p.child.again()
		p.call("same", nil).want(t, 0, `{"n":1}`)
	}
}

// change rewrites the state file of an action's container.
func (p *platform) change(action string, how func([]byte) []byte) {
	p.t.Helper()
	found, _ := filepath.Glob(filepath.Join(p.stateFiles(), "*_guest_"+action+".note"))
	check.Equal(check.Must(p.t), len(found), 1, "state files of %s: %v", action, found)
	text, err := os.ReadFile(found[0])
	if err == nil {
		err = os.WriteFile(found[0], how(text), 0o600)
	}
	check.NoError(p.t, err)
}

// TestStopForGoodLeavesNothing: Ctrl-C, and SIGTERM of an invoker that an operator
// has disabled, remove everything.
func TestStopForGoodLeavesNothing(t *testing.T) {
	p := start(t, realParts(t), setup{child: true})
	p.create("warm", "nodejs:20", counting, nil)
	for _, disabled := range []bool{true, false} {
		p.call("warm", nil).want(t, 0, `{"n":1}`)
		p.container("guest_warm", "ready")
		how := syscall.SIGINT
		if disabled {
			p.admin.Do(t, http.MethodPost, "/disable")
			how = syscall.SIGTERM
		}
		check.NoError(t, p.child.end(how))
		check.Equal(t, p.containers(), "", "after %v, disabled %t", how, disabled)
		left, _ := filepath.Glob(filepath.Join(p.stateFiles(), "*"))
		check.Equal(t, len(left), 0, "state files: %v", left)
		p.child.again()
	}
}

// TestGPUContainerIsAdoptedWithItsMemory: the next invoker counts the device memory of a
// container as the shim reports it, and uses the container as it is.
func TestGPUContainerIsAdoptedWithItsMemory(t *testing.T) {
	t.Parallel()
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(how.String(), func(t *testing.T) {
			t.Parallel()
			p := startGPUIn(t, dockerParts(t), 60, setup{child: true})
			p.deployGPU(true, "holds", "wants")
			p.gpuCall("holds", 1, "cold")
			p.uses(holds + ctx)
			id := p.idOf("guest_holds")
			p.child.replace(how)
			// A poll of the device may come before its shim's report, and see no context.
			got := p.used()
			check.That(t, got == holds+ctx || got == holds, "%d bytes count as taken at the start, %d were before", got, holds+ctx)
			peertest.Until(t, "its shim connects", func() string {
				if n := p.metric("gpuwhisk_shim_processes", ""); n < 1 {
					return "none is connected"
				}
				return ""
			})
			p.uses(holds + ctx)
			p.gpuCall("holds", 2, "gpu-warm")
			check.Equal(t, p.idOf("guest_holds"), id, "it ran in another container")
			// Its memory is moved on order, as before: another function needs the memory.
			p.gpuCall("wants", 1, "cold")
			p.gpuCall("holds", 3, "host-warm")
		})
	}
}
