package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// framework is a way to the device that functions take, with its worker.
type framework struct {
	name, module string
	env          []string
	stays        string // why its memory does not move; empty: it must move
	graphs       bool
}

// torch sets PyTorch's allocator, by its newer name and its older one.
func torch(conf string) []string {
	return []string{"PYTORCH_ALLOC_CONF=" + conf, "PYTORCH_CUDA_ALLOC_CONF=" + conf}
}

// modules are the modules of the frameworks.
var modules = []string{"torch", "cupy", "jax"}

var frameworks = []framework{
	{"PyTorch, default allocator", "torch", nil, "", true},
	{"PyTorch, expandable segments", "torch", torch("expandable_segments:True"), "it is mapped by cuMemCreate", true},
	{"PyTorch, cudaMallocAsync", "torch", torch("backend:cudaMallocAsync"), "it is in a pool of the driver", true},
	{"CuPy, default pool", "cupy", nil, "", true},
	{"CuPy, asynchronous pool", "cupy", []string{"GPUWHISK_CHECK_POOL=async"}, "it is in a pool of the driver", true},
	{"JAX", "jax", []string{"XLA_PYTHON_CLIENT_PREALLOCATE=false"}, "most versions do not allocate their arena by cuMemAlloc", false},
}

// hasFrameworks reports whether the driver serves frameworks. The fake driver does not.
func (f *fixture) hasFrameworks() bool { return !f.fake() || f.s.frameworks }

// installed returns the frameworks whose modules Python finds. It does not load them.
func (t *trial) installed() []framework {
	const find = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
	ctx, cancel := context.WithTimeout(t.ctx, time.Minute)
	defer cancel()
	found := map[string]bool{}
	for _, module := range modules {
		found[module] = t.hasFrameworks() && command(ctx, []string{t.s.Python, "-c", find, module}, t.env()).Run() == nil
	}
	return slices.DeleteFunc(slices.Clone(frameworks), func(f framework) bool { return !found[f.module] })
}

// framework starts the worker of a framework. The worker leaves no compiled files behind.
func (t *trial) framework(f framework, shim bool) *program {
	return t.start(f.name, []string{t.s.Python, "-B", t.path("check/" + f.module + "_worker.py")}, shim, f.env...)
}

// preload imports the frameworks while other steps run, so that their files are in the page
// cache when a step needs them. It does not touch the device.
func (f *fixture) preload(ctx context.Context) {
	for _, module := range modules {
		_ = command(ctx, []string{f.s.Python, "-B", "-c", "import " + module}, f.env()).Run() // the steps report missing modules
	}
}

// checkFrameworks swaps and verifies an array of each framework and allocator, with and
// without a recorded graph. All workers start at once, because most of their time goes into
// loading libraries.
func checkFrameworks(t *trial) {
	if !t.hasFrameworks() {
		skip("frameworks need more of a driver than the fake driver has")
	}
	here := t.installed()
	if len(here) == 0 {
		skip("%s imports none of PyTorch, CuPy and JAX", t.s.Python)
	}
	bytes := t.fit(min(1<<30, t.device.Free/20, t.s.Swap))
	// A comparison needs as much again in the worst case, and libraries bring their own.
	t.take(int64(len(here)) * 2 * (bytes + t.contextBytes()))
	programs, errs := make([]*program, len(here)), make([]error, len(here))
	parallel(len(here), max(1, runtime.NumCPU()/2), func(i int) {
		errs[i] = attempt(here[i].name, func() { programs[i] = t.framework(here[i], true) })
	})
	table := t.table(fmt.Sprintf("An array of %s in each", size(bytes)),
		"framework", "counted", "moves", "does not move", "beside its memory", "out GB/s", "in GB/s", "left by NVML", "wrong", "with a graph")
	for i, f := range here {
		if errs[i] == nil {
			errs[i] = attempt(f.name, func() { t.swapFramework(table, f, programs[i], bytes) })
			programs[i].end(endTime)
		}
	}
	require(errors.Join(errs...))
}

func (t *trial) swapFramework(table *Table, f framework, p *program, bytes int64) {
	p.fill(bytes, 5)
	p.ask("work %d 3", p.block)
	counted, beside := t.besideMemory(f, p)
	var out, in shimctl.Done
	var left string
	for range 2 { // the first time creates the host's pages
		full := t.used()
		out = t.evict(p)
		left = known(full, size(full-t.used()))
		in = t.prefetch(p)
	}
	wrong := wrongWords(p)
	graph := "not tried"
	if f.graphs {
		n := t.swapGraph(p, true)
		graph = fmt.Sprintf("%d wrong", n)
		wrong += n
	}
	stays := max(0, counted-out.Moved)
	table.row(f.name, size(counted), size(out.Moved), size(stays), beside, gbs(rate(out.Moved, out.Took)), gbs(rate(in.Moved, in.Took)), left, wrong, graph)
	t.none("wrong words with "+f.name, wrong)
	t.whole("of the array counted by the shim with "+f.name, counted, bytes)
	switch {
	case f.stays == "":
		t.whole("of the array swapped with "+f.name, min(out.Moved, in.Moved), bytes)
	case stays >= bytes/2:
		t.remark("%s: %s of %s do not move, because %s. This memory is only counted. It leaves the card when its container is removed.",
			f.name, size(stays), size(counted), f.stays)
	}
}

// besideMemory returns the memory that the shim counts for a program, and the memory that
// NVML lists for it beside that, once its libraries are loaded. The invoker must not hold
// the latter against a limit. NVML lists no managed memory.
func (t *trial) besideMemory(f framework, p *program) (counted int64, beside string) {
	p.ask("libraries")
	plain := int64(0)
	for _, u := range value(p.container.Report(t.ctx)) {
		counted += u.Allocated
		plain += u.Plain
	}
	all := t.listed(p.cmd.Process.Pid)
	if all >= 0 {
		const most = cudaContext + shimctl.LibraryBytes
		t.judge("MiB beside the memory of "+f.name+", by NVML", float64((all-plain)>>20), "",
			fmt.Sprintf("at most %d, as limits allow for", most>>20), all-plain <= most)
	}
	return counted, known(all, size(all-plain))
}

// whole adds a finding: a part of an array must be the whole array or more.
func (t *trial) whole(what string, part, all int64) {
	t.add(what, share(float64(part), float64(all)), "share", "at least 100%", part >= all, Failed)
}
