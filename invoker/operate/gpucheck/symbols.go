package gpucheck

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// set is a set of names.
type set map[string]bool

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// requested is what one program requested of the driver.
type requested struct {
	linked, dlsym, procAddress set
	newer                      set // ABIs of hooked functions that the table lacks
	unexported                 set // what was asked for and is no export
	objects                    []string
}

// all are the names of everything that a program got.
func (q *requested) all() []string {
	all := set{}
	for _, s := range []set{q.linked, q.dlsym, q.procAddress} {
		maps.Copy(all, s)
	}
	return all.sorted()
}

// subject is a program whose requests are traced.
type subject struct {
	name string
	args []string
	env  []string
	once bool // it does its work and ends, where a worker takes orders
}

// checkSymbols traces what programs request of the driver and compares it with
// abi.def: memory that is allocated by a function outside of it would not be seen.
func checkSymbols(t *trial) {
	table := t.pointers(t.env())
	subjects := t.subjects()
	traced, errs := make([]*requested, len(subjects)), make([]error, len(subjects))
	parallel(len(subjects), 3, func(i int) {
		errs[i] = attempt(subjects[i].name, func() { traced[i] = t.traceSubject(i, subjects[i], table) })
	})
	rows := t.table("What each program got of the driver", "program", "linked", "dlsym", "cuGetProcAddress", "of them in abi.def")
	for i, q := range traced {
		if q != nil {
			rows.row(subjects[i].name, len(q.linked), len(q.dlsym), len(q.procAddress), known(q.all(), table))
		}
	}
	judgeSymbols(t.Result, subjects, traced, table)
	check(errors.Join(errs...))
}

func (t *trial) subjects() []subject {
	out := []subject{{name: "C, dlsym", args: []string{t.program("worker")}}}
	if t.importable("ctypes") {
		out = append(out, subject{name: "Python, ctypes", once: true, args: []string{t.s.Python, "-B", "-c",
			"import sys; sys.path.insert(0, sys.argv[1]); import gpufunc; print(gpufunc.main({'bytes': 1 << 20}))", t.scripts}})
	}
	seen := set{}
	for _, f := range t.installed() {
		if !seen[f.module] {
			seen[f.module] = true
			out = append(out, subject{name: f.name, args: t.python(f.script), env: f.env})
		}
	}
	return out
}

// traceSubject runs a program under the audit library. Workers allocate and fill a
// block.
func (t *trial) traceSubject(i int, s subject, table []entry) *requested {
	log := filepath.Join(t.dir, fmt.Sprintf("trace-%d", i))
	env := t.env(append(s.env, "LD_AUDIT="+t.program("libtrace.so"), "GPUWHISK_TRACE="+log)...)
	if s.once {
		if text, err := command(t.ctx, s.args, env).CombinedOutput(); err != nil {
			check(fmt.Errorf("%w: %.400s", err, text))
		}
	} else {
		p := t.start(s.name, s.args, env)
		p.ask("fill %d 1", p.ask("alloc %d", 4<<20).Block)
		p.end(endTime)
	}
	q := value(readTrace(log, table))
	q.addLinked()
	return q
}

// readTrace reads what trace.c wrote.
func readTrace(path string, table []entry) (*requested, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	hooked, known := set{}, addresses(table)
	for _, e := range table {
		if e.Hook {
			hooked[e.Base] = true
		}
	}
	q := &requested{linked: set{}, dlsym: set{}, procAddress: set{}, newer: set{}, unexported: set{}}
	for line := range strings.Lines(string(text)) {
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "object":
			q.objects = append(q.objects, words[1])
		case len(words) == 2 && words[0] == "linked":
			q.linked[words[1]] = true
		case len(words) == 2 && words[0] == "dlsym":
			q.dlsym[words[1]] = true
		case len(words) == 6 && words[0] == "asked" && words[4] != "-": // the driver has it
			q.addAnswer(words[1], words[2], words[4], words[5], hooked, known)
		}
	}
	if len(q.dlsym)+len(q.linked) == 0 {
		return nil, errors.New("the trace is empty")
	}
	return q, nil
}

// addAnswer adds what came of a call of cuGetProcAddress.
func (q *requested) addAnswer(base, version, name, address string, hooked set, known map[uint64]string) {
	at, err := strconv.ParseUint(address, 10, 64)
	if err != nil {
		return // no line of trace.c
	}
	if export, in := known[at]; in {
		name = export
	} else if hooked[base] {
		v, _ := strconv.Atoi(version) // 0 of what is none
		q.newer[fmt.Sprintf("%s at %d.%d: %s", base, v/1000, v%1000/10, name)] = true
	}
	if name == "?" {
		q.unexported[base] = true
		name = base
	}
	q.procAddress[name] = true
}

// addLinked adds what loaded objects import from the driver by their symbol tables:
// the loader does not report an address that is only taken.
func (q *requested) addLinked() {
	for _, path := range q.objects {
		f, err := elf.Open(path)
		if err != nil {
			continue // such as the kernel's own object, which is no file
		}
		libraries, _ := f.ImportedLibraries()
		symbols, _ := f.ImportedSymbols()
		_ = f.Close() // only read
		if !slices.ContainsFunc(libraries, func(n string) bool { return strings.HasPrefix(n, "libcuda.so") }) {
			continue
		}
		for _, s := range symbols {
			if isDriver(s.Name) {
				q.linked[s.Name] = true
			}
		}
	}
}

// isDriver distinguishes the driver's names from those of the runtime and libraries:
// cuMemAlloc, not cudaMalloc or cublasCreate.
func isDriver(name string) bool {
	return len(name) > 2 && strings.HasPrefix(name, "cu") && name[2] >= 'A' && name[2] <= 'Z'
}

// known is how many of some names the table has.
func known(names []string, table []entry) (n int) {
	for _, name := range names {
		if slices.ContainsFunc(table, func(e entry) bool { return e.Export == name }) {
			n++
		}
	}
	return n
}

// memoryWords are in the names of functions that take device memory, or bring
// memory of another process in.
var memoryWords = []string{"Alloc", "MemCreate", "PoolCreate", "ArrayCreate", "Array3DCreate", "MipmappedArrayCreate",
	"MulticastCreate", "Import", "OpenMemHandle", "MapResources", "MappedBuffer", "MemMap", "RegisterResource",
	"RegisterBuffer", "RegisterImage", "HostRegister", "EGLStreamConsumer"}

// harmless are names with such a word that take no device memory, or whose memory
// the table has under another name.
var harmless = []string{"cuMemGetAllocationGranularity", "cuMemGetAllocationPropertiesFromHandle",
	"cuGraphMemAllocNodeGetParams", "cuMemRetainAllocationHandle", "cuMemAllocHost", "cuMemHostAlloc",
	"cuImportExternalSemaphore"}

// allocates judges by its name whether a function may take device memory.
func allocates(name string) bool {
	return !slices.Contains(harmless, name) &&
		slices.ContainsFunc(memoryWords, func(w string) bool { return strings.Contains(name, w) })
}

// judgeSymbols compares what programs requested with the table. A program gets the
// whole driver from the runtime and uses a little of it, so a name alone is no
// fault: it is listed. An ABI of a hooked function that the table lacks is one:
// calls by it go past the shim.
func judgeSymbols(r *Result, subjects []subject, traced []*requested, table []entry) {
	newer := r.table("ABIs of hooked functions that the table lacks, and a program took", "program", "asked for, and got")
	by := map[string][]string{} // programs by the function that they got
	count := 0
	for i, q := range traced {
		if q == nil {
			continue // the trace failed
		}
		count++
		for _, n := range q.newer.sorted() {
			newer.row(subjects[i].name, n)
		}
		for _, n := range q.all() {
			by[n] = append(by[n], subjects[i].name)
		}
		if len(q.unexported) > 0 {
			r.remark("%s got pointers that are no exports for: %s.", subjects[i].name, strings.Join(q.unexported.sorted(), ", "))
		}
	}
	unknown := r.table("Functions that may take device memory and are not in abi.def, to be looked at", "function", "got by")
	all := r.table("All functions that the programs got", "function", "got by")
	for _, n := range slices.Sorted(maps.Keys(by)) {
		all.row(n, strings.Join(by[n], "; "))
		if allocates(n) && known([]string{n}, table) == 0 {
			unknown.row(n, strings.Join(by[n], "; "))
		}
	}
	r.lacking(newer, ", taken by a program")
	r.must("programs that were traced", float64(count), fmt.Sprint(len(subjects)), count == len(subjects))
}
