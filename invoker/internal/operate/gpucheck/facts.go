package gpucheck

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/mps"
)

// planned makes the plan of a step. Its template reads facts about this card and this host. A
// tenth of the free memory is left for other programs: a card can hang when programs have
// more managed memory than it has free.
func (f *fixture) planned(st step) (p plan, err error) {
	bytes, remarks, err := f.sized(st.Block)
	if err != nil {
		return plan{}, err
	}
	_, noPython := exec.LookPath(f.s.Python)
	facts := map[string]any{
		"name": st.Name, "bytes": bytes, "rounds": cmp.Or(st.Rounds, f.s.Rounds), "moves": st.Moves, "context": f.contextBytes(),
		"holders": slices.DeleteFunc(slices.Clone(st.Holders), func(h holder) bool { return h.Module != "" && !slices.Contains(f.modules, h.Module) }),
		"fake":    f.fake(), "reclaim": f.s.Reclaim, "goals": f.s.Goals, "runTime": int64(f.s.RunTime), "containers": f.s.Containers,
		"python": f.s.Python, "noPython": noPython, "mps": st.Name == "mps" && mps.Runs(os.DirFS("/")), "nvml": f.nvml != nil, "witness": f.witness, "used": f.card().Memory.Used,
		"check": f.path("check"), "self": f.s.Self, "driver": f.s.FakeDriver, "shim": f.path(shimFile), "data": filepath.Join(f.dir, st.Name),
		"libraries": (cudaContext + shimctl.LibraryBytes) >> 20,
	}
	if st.Name == "cgroups" && f.nvml != nil {
		limit := 3*f.contextBytes() + 4*bytes
		facts["group"], facts["limit"], facts["refused"] = cgroup(), limit, f.limitGroup(limit)
	}
	if err := render(cmp.Or(st.Plan, st.Name), facts, &p); err != nil {
		return plan{}, err
	}
	p.Remarks = append(p.Remarks, remarks...)
	wanted := p.Memory.Blocks*bytes + p.Memory.Bytes + int64(len(p.Programs))*f.contextBytes()
	if most := f.device.Free / 10 * 9; p.Skip == "" && wanted > most {
		p.Skip = fmt.Sprintf("not enough free device memory: %s wanted, %s free at the start of which %s may be used",
			size(wanted), size(f.device.Free), size(most))
	}
	if p.Skip != "" {
		return plan{}, errSkip{p.Skip}
	}
	return p, nil
}

// sized is the size of a block here. It is cut so that the blocks fit twice into the host's
// free memory when they leave the device.
func (f *fixture) sized(b block) (bytes int64, remarks []string, err error) {
	if b.Percent == 0 || f.fake() && b.Fake > 0 {
		return b.Fake, nil, nil
	}
	free, count := f.device.Free, max(1, b.Count, pick(b.Containers, int64(f.s.Containers), 1))
	bytes = min(cmp.Or(b.Most, free), free/100*b.Percent/count-pick(b.Containers, f.contextBytes(), 0))
	if setting := map[string]int64{"swap": f.s.Swap, "set": f.s.Set}[b.Setting]; setting > 0 {
		bytes = min(bytes, setting)
	}
	half := cmp.Or(f.s.HostMemory, hostFree()) / 2
	cut := min(bytes, half/count) &^ (1<<16 - 1)
	switch {
	case bytes <= b.Above:
		err = errSkip{fmt.Sprintf("%d blocks find only %s each on a card with %s free", count, size(max(bytes, 0)), size(free))}
	case cut <= b.Above || half < 64<<20:
		err = errSkip{fmt.Sprintf("the host has %s free: too little to swap to (--host-memory overrides that)", size(2*half))}
	case count*bytes > half:
		remarks = []string{fmt.Sprintf("Cut from %s to %s altogether, because the host has %s free (--host-memory overrides that).", size(count*bytes), size(count*cut), size(2*half))}
	}
	return cut, remarks, err
}

// cgroup is the control group of the check. On the fake driver it is only a name.
func cgroup() string { return fmt.Sprintf("/sys/fs/cgroup/gpuwhisk-check-%d", os.Getpid()) }

func (f *fixture) limitGroup(bytes int64) error {
	if !f.fake() {
		if err := os.Mkdir(cgroup(), 0o755); err != nil {
			return err
		}
	}
	return f.nvml.LimitCgroup(f.card().UUID, cgroup(), bytes)
}
