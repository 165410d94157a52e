package gpucheck

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// step is one part of the check. shows describes its measurements for the report. budget is
// the time that is kept for it; it is several times what the step takes on an H200. run
// starts programs of shim/check, gives them orders, and judges their answers.
type step struct {
	name, title, shows string
	budget             time.Duration
	run                func(*trial)
}

// steps in the order of running: short steps that find most come first.
var steps = []step{
	{"pointers", "Both ways of looking a function up",
		"the pointer of each line of shim/abi.def by dlsym and by cuGetProcAddress, without and under the shim; functions past the shim, and ABIs of hooked functions that are newer than the table",
		10 * time.Second, checkPointers},
	{"swap", "A block swapped out and in",
		"a block of up to 8 GiB that moves as managed memory: wrong words, GB/s each way beside copies of pinned memory, and the share of the block that is free for others afterwards",
		50 * time.Second, moves{upTo(math.MaxInt64, 40), 6, []holder{{name: "managed memory", speed: true, left: true}}}.run},
	{"fresh", "First touch of fresh managed memory",
		"GB/s of a kernel that writes a fresh block, and writes it again, with plain memory and with managed memory under the shim; GB/s of the block's first way out; wrong words",
		30 * time.Second, checkFresh},
	{"large", "A block above 8 GiB",
		"a block of 12 GiB that goes out and in: wrong words, GB/s each way beside copies of pinned memory",
		40 * time.Second, moves{above8GiB, 3, []holder{{name: "managed memory", speed: true}}}.run},
	{"graph", "A graph across a move",
		"graphs that a C program recorded before its memory moved, and after: wrong words after replays that fault the memory in, and after a prefetch",
		15 * time.Second, moves{upTo(1<<30, 5), 0, []holder{{name: "managed memory", graphs: 2}}}.run},
	{"vmm", "Mapped handles beside managed memory",
		"a block that moves as managed memory, and as mapped handles (whisk.gpu.memory=vmm): wrong words, also below a recorded graph, GB/s each way beside copies of pinned memory, the share of the block that is free for others afterwards",
		60 * time.Second, moves{upTo(math.MaxInt64, 20), 6, []holder{
			{name: "managed memory", graphs: 1},
			{name: "mapped handles", env: vmm, vmm: true, graphs: 1, speed: true, left: true},
		}}.run},
	{"pair", "Two processes on one device",
		"ms of a run of each while the other's memory goes and comes, then of both at once; wrong words",
		30 * time.Second, func(t *trial) { checkPair(t) }},
	{"mps", "Two processes on one device by MPS",
		"the same as clients of an MPS daemon that runs already, and a limit of memory",
		30 * time.Second, checkMPS},
	{"prefetch", "Prefetch against plain faulting",
		"ms of containers in turns with two thirds of the memory that they need (the paper's figure): never swapped, prefetched ahead, faulted in",
		110 * time.Second, checkPrefetch},
	{"overhead", "Overhead of the shim",
		"ms of FFT, GEMM and a loop of small kernels without and under the shim in turns, by kernels of the check and of the first framework that is there",
		50 * time.Second, checkOverhead},
	{"frameworks", "Moves under frameworks",
		"a block in PyTorch (three allocators), CuPy (two pools) and JAX, and by mapped handles: which memory moves and which stays on the card, wrong words, also below a recorded graph, GB/s, and the MiB that NVML lists beside the counted memory",
		50 * time.Second, moves{upTo(1<<30, 5), 2, frameworks}.run},
	{"cgroups", "NVML, control groups and managed memory",
		"whether NVML lists managed memory for its process; whether the memory limits of control groups (NVML 13.4) count managed memory and hold",
		15 * time.Second, checkCgroups},
	{"end-to-end", "Functions through gpuwhisk standalone",
		"two Python functions with kernels of their own in process mode: right results, and ms of each phase by their records",
		20 * time.Second, func(t *trial) { checkFunctions(t, false) }},
	{"pressure", "Functions that together exceed the card",
		"the same where the card has room for one and a half functions, so that the invoker must move their memory",
		30 * time.Second, func(t *trial) { checkFunctions(t, true) }},
}

// vmm is the environment of programs whose memory is mapped handles.
var vmm = []string{"GPUWHISK_SHIM=vmm"}

// torch sets PyTorch's allocator, by its newer name and its older one.
func torch(conf string) []string {
	return []string{"PYTORCH_ALLOC_CONF=" + conf, "PYTORCH_CUDA_ALLOC_CONF=" + conf}
}

const (
	inPool   = "it is in a pool of the driver"
	byHandle = "the program maps it by cuMemCreate itself"
)

// frameworks are the ways to device memory that frameworks take. JAX's worker records no
// graphs.
var frameworks = []holder{
	{name: "PyTorch, default allocator", module: "torch", graphs: 1},
	{name: "PyTorch, default allocator, mapped handles", module: "torch", env: vmm, vmm: true, graphs: 1},
	{name: "PyTorch, expandable segments", module: "torch", env: torch("expandable_segments:True"), stays: byHandle, graphs: 1},
	{name: "PyTorch, cudaMallocAsync", module: "torch", env: torch("backend:cudaMallocAsync"), stays: inPool, graphs: 1},
	{name: "CuPy, default pool", module: "cupy", graphs: 1},
	{name: "CuPy, default pool, mapped handles", module: "cupy", env: vmm, vmm: true, graphs: 1},
	{name: "CuPy, asynchronous pool", module: "cupy", env: []string{"GPUWHISK_CHECK_POOL=async"}, stays: inPool, graphs: 1},
	{name: "JAX", module: "jax", env: []string{"XLA_PYTHON_CLIENT_PREALLOCATE=false"}, stays: byHandle},
}

// Names are the steps' names, in order.
func Names() (out []string) {
	for _, s := range steps {
		out = append(out, s.name)
	}
	return out
}

// Help is a line for each step.
func Help() string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "  %-11s %s (%v)\n", s.name, s.shows, s.budget)
	}
	return b.String()
}

// chosen returns the steps to run, and the sum of their budgets.
func (s Settings) chosen() (of []step, budget time.Duration, err error) {
	for _, name := range slices.Concat(s.Only, s.Skip) {
		if !slices.Contains(Names(), name) {
			return nil, 0, fmt.Errorf("step %s: known are %v: %w", name, Names(), ErrCannotRun)
		}
	}
	for _, st := range steps {
		if (len(s.Only) == 0 || slices.Contains(s.Only, st.name)) && !slices.Contains(s.Skip, st.name) {
			of, budget = append(of, st), budget+st.budget
		}
	}
	if len(of) == 0 {
		return nil, 0, fmt.Errorf("no step is left to run: %w", ErrCannotRun)
	}
	return of, budget, nil
}
