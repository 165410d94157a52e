package gpucheck

import (
	"bytes"
	"cmp"
	"fmt"
)

// pointer is a function of the driver, or none.
type pointer struct {
	Is   string // its address
	Of   string // the file that it is in
	At   uint64 // its place in the file
	Name string // its export, "?" if it is not exported
}

// entry is one line of pointers.c, which explains its fields.
type entry struct {
	Base, Export         string
	Version, Flags       int
	Hook                 bool
	Plain, Asked, Newest pointer
}

// shimFile is the object that a hooked function must come from.
const shimFile = "libgpuwhisk.so"

// checkPointers compares dlsym with cuGetProcAddress for every line of abi.def, without and
// with the shim. The driver may give two pointers for one function, or none. Under the shim
// both must be the shim's.
func checkPointers(t *trial) {
	plain, hooked := t.pointers(t.env()), t.pointers(t.shimEnv(t.container()))
	if len(plain) != len(hooked) {
		fail("%d lines without the shim, %d under it", len(plain), len(hooked))
	}
	differ := t.table("Where dlsym and cuGetProcAddress differ, or the driver has no function", "export", "dlsym", "cuGetProcAddress", "its export")
	for _, e := range plain {
		if e.Plain.Is != e.Asked.Is || e.Plain.Is == "" {
			differ.row(e.Export, cmp.Or(e.Plain.Is, "none"), cmp.Or(e.Asked.Is, "none"), e.Asked.Name)
		}
	}
	judgeHooked(t.Result, plain, hooked)
	judgeNewest(t.Result, plain)
}

func (t *trial) pointers(env []string) (entries []entry) {
	var stderr bytes.Buffer
	cmd := command(t.ctx, []string{t.path("check/pointers")}, env)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	for line := range bytes.Lines(out) {
		var e entry
		require(decode(line, &e))
		entries = append(entries, e)
	}
	if err != nil {
		fail("pointers: %w: %.400s", err, &stderr)
	}
	return entries
}

// judgeHooked finds out whether every hooked function that the driver has comes from the
// shim, both ways.
func judgeHooked(r *Result, plain, hooked []entry) {
	all := 0
	past := r.table("Hooked functions that come past the shim", "export", "way", "from")
	for i, e := range hooked {
		ways := [][2]pointer{{plain[i].Plain, e.Plain}, {plain[i].Asked, e.Asked}}
		for w, way := range []string{"dlsym", "cuGetProcAddress"} {
			if driver, shim := ways[w][0], ways[w][1]; e.Hook && driver.Is != "" {
				all++
				if shim.Of != shimFile {
					past.row(e.Export, way, orUnknown(shim.Of))
				}
			}
		}
	}
	missed := len(past.Rows)
	r.must(fmt.Sprintf("of %d lookups of hooked functions, past the shim", all), float64(missed), "", "0", all > 0 && missed == 0)
	r.say("%d of %d lookups of hooked functions come past the shim.", missed, all)
}

// judgeNewest finds ABIs of hooked functions that are newer than the table: a program built
// for this driver's CUDA gets them past the shim. One function may have several names, so
// its place in the driver's file counts.
func judgeNewest(r *Result, plain []entry) {
	known := map[uint64]bool{}
	for _, p := range plain {
		known[p.Plain.At], known[p.Asked.At] = true, true
	}
	newer := r.table("ABIs of hooked functions that the table lacks", "asked for", "the driver's newest")
	for _, e := range plain {
		if e.Hook && e.Newest.Is != "" && !known[e.Newest.At] {
			known[e.Newest.At] = true
			newer.row(e.Base, e.Newest.Name)
		}
	}
	n := len(newer.Rows)
	r.judge(newer.Title, float64(n), "", "0", n == 0)
}
