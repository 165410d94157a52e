package gpucheck

import (
	"fmt"
	"os"
	"path/filepath"
)

// checkCgroups finds out how NVML counts managed memory. The invoker relies on NVML not
// listing it for a process. Limits of control groups are of use to the invoker only if they
// count it (whisk.gpu.cgroup-limits).
func checkCgroups(t *trial) {
	if t.nvml == nil {
		skip("no NVML: %s", t.witness)
	}
	bytes, least, most := upTo(1<<30, 5)(t), t.s.Goals.Left, 0.05
	t.take(6*bytes + 3*t.contextBytes())
	p := t.filled(bytes, 23)
	if listed := t.listed(p.cmd.Process.Pid); listed >= 0 {
		v := share(float64(max(0, listed-t.contextBytes())), float64(bytes))
		t.judge("of a managed block listed by NVML for its process, without the context", v, "share", "at most "+percent(most), v <= most)
		t.say("NVML lists %s of a managed block for its process.", percent(v))
	} else {
		t.say("NVML does not list the process.")
	}
	p.end(endTime)
	path, limit := fmt.Sprintf("/sys/fs/cgroup/gpuwhisk-check-%d", os.Getpid()), 3*t.contextBytes()+4*bytes
	uuid := t.card().UUID
	err := error(nil)
	if !t.fake() { // on the fake driver the group is only a name
		err = os.Mkdir(path, 0o755)
		defer func() { _ = os.Remove(path) }() // the step's programs have ended, or the group stays
	}
	if err == nil {
		err = t.nvml.LimitCgroup(uuid, path, limit)
	}
	if err != nil {
		t.say("Leave whisk.gpu.cgroup-limits off: limits of control groups were not tried (%v).", err)
		if len(t.Findings) == 0 {
			skip("NVML lists no processes here, and limits no control groups")
		}
		return
	}
	worker := func(shim bool) *program {
		args := []string{t.path("check/worker")}
		if !t.fake() {
			args = append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(path, "cgroup.procs")}, args...)
		}
		return t.start("worker in a control group", args, shim, "FAKE_CUDA_CGROUP="+path)
	}
	used := func() int64 { return value(t.nvml.CgroupUse(uuid, path)) }
	p, plain := worker(true), worker(false)
	defer plain.end(0)
	defer p.end(0)
	before := used()
	p.fill(bytes, 29)
	v := share(float64(used()-before), float64(bytes))
	t.judge("of a managed block counted by the limit of its control group", v, "share", "at least "+percent(least), v >= least)
	took := plain.ask("take %d", 5*bytes+3*t.contextBytes()).Took
	t.none("blocks of plain memory given beyond the limit of a control group", int64(took))
	err = catch(func() { p.fill(4*bytes+bytes/2, 31) })
	require(t.ctx.Err())
	over := max(0, used()-limit)
	t.judge("MiB of managed memory beyond the limit of a control group", float64(over>>20), "", "0", over == 0)
	t.say("%s whisk.gpu.cgroup-limits: limits of control groups count %s of a managed block, gave %d plain blocks too many and %s of managed memory too much.",
		pick(v >= least && took == 0 && over == 0, "You can set", "Leave off"), percent(v), took, size(over))
	if err != nil {
		t.remark("A program that went beyond the limit with managed memory got an error: %v.", err)
	}
}
