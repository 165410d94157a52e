package harness

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
)

// deployments counts the deployments of this process that share a Docker daemon.
var deployments atomic.Int64

// Running is an invoker in this process.
type Running struct {
	Stop  context.CancelFunc // begins the end of the invoker, as SIGTERM does
	Slow  bool               // the invoker gave up waiting for the removal of its containers
	Admin Admin
	Ready <-chan struct{} // closed when the invoker accepts activations

	t     testing.TB
	ended chan error
}

// Begin runs the invoker with a number in this process. It returns when the admin page is
// open.
func (d *Deployment) Begin(id int, change ...func(*assembly.Options)) *Running {
	d.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d.T.Cleanup(cancel)
	ready := make(chan struct{})
	r := &Running{t: d.T, Stop: cancel, Ready: ready, ended: make(chan error, 1)}
	local := Local{Options: assembly.Options{Log: d.Log, Self: d.Self, Ready: func() { close(ready) }}}
	for _, c := range change {
		c(&local.Options)
	}
	wait, err := local.Start(ctx, d.Environment(), d.Args(id))
	check.NoError(d.T, err)
	r.Admin = local.Admin()
	go func() { r.ended <- wait() }()
	return r
}

// Start is Begin, and returns when the invoker is ready, in scheduler mode when schedulers
// see that it is up.
func (d *Deployment) Start(id int, change ...func(*assembly.Options)) *Running {
	d.T.Helper()
	r := d.Begin(id, change...)
	select {
	case <-r.Ready:
	case err := <-r.ended:
		d.T.Fatalf("the invoker ended at its start: %v", err)
	case <-time.After(peertest.WaitLimit):
		d.T.Fatal("the invoker is not ready")
	}
	if d.Scheduler != nil {
		d.awaitUp(id, r.CheckRuns)
	}
	return r
}

// CheckRuns fails the test if the invoker has ended.
func (r *Running) CheckRuns() {
	r.t.Helper()
	select {
	case err := <-r.ended:
		r.t.Fatalf("the invoker ended: %v", err)
	default:
	}
}

// End stops the invoker and blocks until its end.
func (r *Running) End() {
	r.t.Helper()
	r.Stop()
	stuck, late := time.After(20*time.Second), time.After(peertest.WaitLimit)
	for {
		select {
		case err := <-r.ended:
			if r.Slow = RemovesSlowly(err); err != nil && !r.Slow {
				r.t.Errorf("the invoker ended with %v", err)
			}
			return
		case <-stuck: // here, because its log belongs to the test
			r.explain()
		case <-late:
			r.t.Fatal("the invoker does not end")
		}
	}
}

// explain logs the state of every goroutine if an invoker does not end.
func (r *Running) explain() {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	containers, _ := exec.Command("docker", "ps", "--all", "--no-trunc").CombinedOutput()
	r.t.Logf("the invoker has not ended for 20 s:\n%s\n%s", containers, stacks)
}

// Spawn starts an invoker in its own process, with further environment. It returns when
// the invoker is ready. In scheduler mode the schedulers then see the invoker.
func (d *Deployment) Spawn(id int, more ...string) *Process {
	d.T.Helper()
	cmd := Command(append(d.Environment(), more...), d.Args(id)...)
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	p := Launch(d.T, cmd)
	check.NoError(d.T, p.Await())
	if d.Scheduler != nil {
		d.AwaitUp(id, p)
	}
	return p
}

// Shipped returns a command of the released program, with further environment.
func (d *Deployment) Shipped(more []string, args ...string) *exec.Cmd {
	d.T.Helper()
	program, err := peertest.Program("../../../cmd/gpuwhisk")
	check.NoError(d.T, err)
	cmd := exec.Command(program, args...)
	cmd.Env = slices.Concat(d.Environment(), UnitEnvironment(d.T), []string{"PATH=" + os.Getenv("PATH")}, more)
	return cmd
}

// Ship starts an invoker of the released program in scheduler mode. It returns when
// schedulers see that the invoker is up.
func (d *Deployment) Ship(id int, more ...string) *Process {
	d.T.Helper()
	port := strconv.Itoa(peertest.FreePort(d.T, 16000))
	p := Launch(d.T, d.Shipped(append(more, "PORT="+port), append([]string{"invoker"}, d.Args(id)...)...))
	p.Admin.URL = "http://127.0.0.1:" + port
	d.AwaitUp(id, p)
	return p
}
