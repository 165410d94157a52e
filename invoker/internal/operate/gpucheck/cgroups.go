package gpucheck

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// checkCgroups finds out how NVML counts managed memory. The invoker relies on NVML not
// listing it for a process. Limits of control groups are of use to the invoker only if they
// count it (whisk.gpu.cgroup-limits).
func checkCgroups(t *trial) {
	if t.nvml == nil {
		skip("no NVML: %s", t.witness)
	}
	bytes := t.fit(min(1<<30, t.s.Swap, t.device.Free/20))
	t.take(6*bytes + 3*t.contextBytes())
	p := t.filled(bytes, 23)
	if listed := t.listed(p.cmd.Process.Pid); listed >= 0 {
		const most = 0.05
		v := share(float64(max(0, listed-t.contextBytes())), float64(bytes))
		t.judge("of a managed block listed by NVML for its process, without the context", v, "share", "at most "+percent(most), v <= most)
	} else {
		t.remark("NVML does not list the process.")
	}
	p.end(endTime)
	g := cgroup{t, t.card().UUID, fmt.Sprintf("/sys/fs/cgroup/gpuwhisk-check-%d", os.Getpid()), 3*t.contextBytes() + 4*bytes}
	defer g.remove()
	err := g.open()
	switch {
	case errors.Is(err, nvml.ErrNoCgroups):
		t.remark("Limits of control groups: %v. Leave whisk.gpu.cgroup-limits off.", err)
	case err != nil:
		t.remark("Limits of control groups were not tried: %v.", err)
	default:
		g.measure(bytes)
	}
	if len(t.Findings) == 0 {
		skip("NVML lists no processes here, and limits no control groups")
	}
}

// cgroup is a control group whose device memory is limited.
type cgroup struct {
	*trial
	uuid, path string
	limit      int64
}

// open creates and limits the group. On the fake driver the group is only a name.
func (g cgroup) open() error {
	if !g.fake() {
		if err := os.Mkdir(g.path, 0o755); err != nil {
			return err
		}
	}
	return g.nvml.LimitCgroup(g.uuid, g.path, g.limit)
}

func (g cgroup) remove() {
	for _, p := range g.started {
		p.end(0)
	}
	_ = os.Remove(g.path) // it may not exist
}

// worker starts worker.c in the group.
func (g cgroup) worker(shim bool) *program {
	args := []string{g.trial.path("check/worker")}
	if !g.fake() {
		args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.path, "cgroup.procs")}, args...)
	}
	return g.start("worker in a control group", args, shim, "FAKE_CUDA_CGROUP="+g.path)
}

func (g cgroup) used() int64 { return value(g.nvml.CgroupUse(g.uuid, g.path)) }

// measure finds out which memory the limit counts and refuses.
func (g cgroup) measure(bytes int64) {
	least := g.s.Goals.Left
	p, plain := g.worker(true), g.worker(false)
	before := g.used()
	p.fill(bytes, 29)
	v := share(float64(g.used()-before), float64(bytes))
	g.judge("of a managed block counted by the limit of its control group", v, "share", "at least "+percent(least), v >= least)
	took := plain.ask("take %d", 5*bytes+3*g.contextBytes()).Took
	g.must("blocks of plain memory given beyond the limit of a control group", float64(took), "0", took == 0)
	err := catch(func() { p.fill(4*bytes+bytes/2, 31) })
	require(g.ctx.Err())
	over := max(0, g.used()-g.limit)
	g.judge("MiB of managed memory beyond the limit of a control group", float64(over>>20), "", "0", over == 0)
	if err != nil {
		g.remark("A program that went beyond the limit with managed memory got an error: %v.", err)
	}
	g.remark("Set whisk.gpu.cgroup-limits only if this step is well.")
}
