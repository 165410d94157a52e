package gpucheck

import (
	"bytes"
	"fmt"
	"strings"
)

// entry is one line of pointers.c.
type entry struct {
	Base       string `json:"base"`
	Export     string `json:"export"`
	Version    int    `json:"version"`
	Flags      int    `json:"flags"`
	Hook       bool   `json:"hook"`
	Plain      string `json:"plain"`
	PlainOf    string `json:"plain_of"`
	PlainAt    uint64 `json:"plain_at"`
	Asked      string `json:"asked"`
	AskedOf    string `json:"asked_of"`
	AskedAt    uint64 `json:"asked_at"`
	AskedName  string `json:"asked_name"`
	Newest     string `json:"newest"`
	NewestAt   uint64 `json:"newest_at"`
	NewestName string `json:"newest_name"`
}

// shimFile is the object that a hooked function must come from.
const shimFile = "libgpuwhisk.so"

// checkPointers compares dlsym with cuGetProcAddress for every line of abi.def,
// without and with the shim. The driver may give two pointers for one function;
// under the shim both must be the shim's.
func checkPointers(t *trial) {
	plain := t.pointers(t.env())
	hooked := t.pointers(t.shimEnv(t.container()))
	if len(plain) != len(hooked) {
		fail("%d lines without the shim, %d under it", len(plain), len(hooked))
	}
	judgePlain(t.Result, plain)
	judgeHooked(t.Result, plain, hooked)
	judgeNewest(t.Result, plain)
}

func (t *trial) pointers(env []string) (entries []entry) {
	cmd := command(t.ctx, []string{t.program("pointers")}, env)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		fail("pointers: %w: %.400s", err, &stderr)
	}
	if len(out) == 0 {
		fail("pointers: no answer")
	}
	for line := range bytes.Lines(out) {
		var e entry
		check(decode(line, &e))
		entries = append(entries, e)
	}
	return entries
}

// judgePlain lists where the driver's two ways differ. That is no fault: the shim
// has both pointers.
func judgePlain(r *Result, plain []entry) {
	same := 0
	differ := r.table("Where dlsym and cuGetProcAddress differ", "export", "asked for", "dlsym", "cuGetProcAddress", "its export")
	missing := r.table("What the driver lacks", "export", "dlsym", "cuGetProcAddress")
	for _, e := range plain {
		switch {
		case e.Plain == "" || e.Asked == "":
			missing.row(e.Export, word(e.Plain != "", "yes", "no"), word(e.Asked != "", "yes", "no"))
		case e.Plain == e.Asked:
			same++
		default:
			differ.row(e.Export, fmt.Sprintf("%s %d flags %d", e.Base, e.Version, e.Flags), e.Plain, e.Asked, e.AskedName)
		}
	}
	r.remark("Of %d lines of abi.def the driver gives the same pointer both ways for %d, another for %d, and lacks %d one way or both.",
		len(plain), same, len(differ.Rows), len(missing.Rows))
}

// judgeHooked finds out whether every hooked function that the driver has comes
// from the shim, both ways.
func judgeHooked(r *Result, plain, hooked []entry) {
	all := 0
	past := r.table("Hooked functions that come past the shim", "export", "way", "from")
	for i, e := range hooked {
		for _, way := range []struct{ name, plain, of string }{
			{"dlsym", plain[i].Plain, e.PlainOf},
			{"cuGetProcAddress", plain[i].Asked, e.AskedOf},
		} {
			if !e.Hook || way.plain == "" {
				continue
			}
			all++
			if way.of != shimFile {
				past.row(e.Export, way.name, orUnknown(way.of))
			}
		}
	}
	missed := len(past.Rows)
	r.must(fmt.Sprintf("of %d lookups of hooked functions, past the shim", all), float64(missed), "0", all > 0 && missed == 0)
}

// judgeNewest finds ABIs of hooked functions that are newer than the table: a
// program built for this driver's CUDA gets those past the shim. One function may have
// several names, so that its place in the driver's file counts.
func judgeNewest(r *Result, plain []entry) {
	known := map[uint64]bool{}
	for _, e := range plain {
		known[e.PlainAt] = known[e.PlainAt] || e.Plain != ""
		known[e.AskedAt] = known[e.AskedAt] || e.Asked != ""
	}
	newer := r.table("ABIs of hooked functions that the table lacks", "asked for", "the driver's newest")
	seen := map[string]bool{}
	var unexported []string
	for _, e := range plain {
		if e.Hook && e.Newest != "" && !known[e.NewestAt] && !seen[e.Newest] {
			seen[e.Newest] = true
			newer.row(e.Base, e.NewestName)
		}
		if e.AskedName == "?" {
			unexported = append(unexported, e.Export)
		}
	}
	n := len(newer.Rows)
	r.judge("ABIs of hooked functions that the table lacks", float64(n), "", "0", n == 0)
	if len(unexported) > 0 {
		r.remark("cuGetProcAddress gives pointers that are no exports for: %s.", strings.Join(unexported, ", "))
	}
}
