package gpucheck

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// memoryWords are what is in the names of functions that take device memory,
// or bring somebody's memory in.
func memoryWords() []string {
	return []string{"Alloc", "MemCreate", "PoolCreate", "ArrayCreate", "Array3DCreate", "MipmappedArrayCreate",
		"MulticastCreate", "Import", "OpenMemHandle", "MapResources", "MappedBuffer", "MemMap", "RegisterResource",
		"RegisterBuffer", "RegisterImage", "HostRegister", "EGLStreamConsumer"}
}

// harmless are names with such a word that take no device memory, or whose
// memory the table sees by another name.
func harmless() []string {
	return []string{
		"cuMemGetAllocationGranularity", "cuMemGetAllocationPropertiesFromHandle",
		"cuGraphMemAllocNodeGetParams", "cuMemRetainAllocationHandle", "cuMemAllocHost", "cuMemHostAlloc",
		"cuImportExternalSemaphore", // a semaphore
	}
}

// allocates tells by its name whether a function may take device memory.
func allocates(name string) bool {
	if slices.Contains(harmless(), name) {
		return false
	}
	return slices.ContainsFunc(memoryWords(), func(w string) bool { return strings.Contains(name, w) })
}

// judgeSymbols compares what programs asked for with the table. A program gets
// the whole driver from the runtime and uses a little of it, so a name alone
// is no fault: it is listed to be looked at. An ABI of a hooked function that
// the table lacks is one: calls by it go past the shim.
func judgeSymbols(r *Result, subjects []subject, heard []*wanted, table []entry) {
	newer := r.table("ABIs of hooked functions that the table lacks, and a program took", "program", "asked for, and got")
	unknown := map[string][]string{}
	all := map[string]bool{}
	listened := 0
	for i, w := range heard {
		if w == nil {
			continue // could not be listened to
		}
		listened++
		for _, n := range sorted(w.newer) {
			newer.row(subjects[i].name, n)
		}
		for _, n := range w.all() {
			all[n] = true
			if allocates(n) && !slices.ContainsFunc(table, func(e entry) bool { return e.Export == n }) {
				unknown[n] = append(unknown[n], subjects[i].name)
			}
		}
		if len(w.raw) > 0 {
			r.note("%s got pointers that are no exports for: %s.", subjects[i].name, strings.Join(sorted(w.raw), ", "))
		}
	}
	t := r.table("Functions that may take device memory and are not in abi.def, to be looked at", "function", "got by")
	names := make([]string, 0, len(unknown))
	for n := range unknown {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		t.row(n, strings.Join(unknown[n], "; "))
	}
	r.judge("ABIs of hooked functions that the table lacks, taken by a program", float64(len(newer.Rows)), "", "0", len(newer.Rows) == 0)
	r.must("programs that were listened to", float64(listened), "", fmt.Sprint(len(subjects)), listened == len(subjects))
	full := r.table("All functions that the programs got", "first letters", "functions")
	for _, row := range grouped(sorted(all)) {
		full.row(row[0], row[1])
	}
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for n := range set {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// grouped puts names of one beginning on one line: cuMem, cuCtx, cuGraph.
func grouped(names []string) [][2]string {
	var out [][2]string
	for _, n := range names {
		head := n
		for i := 3; i < len(n); i++ {
			if n[i] >= 'A' && n[i] <= 'Z' {
				head = n[:i]
				break
			}
		}
		if len(out) > 0 && out[len(out)-1][0] == head {
			out[len(out)-1][1] += " " + n
			continue
		}
		out = append(out, [2]string{head, n})
	}
	return out
}

func execCommand(ctx context.Context, args, env []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = env
	return cmd
}
