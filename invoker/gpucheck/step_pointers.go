package gpucheck

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
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

// places are where the functions of the table lie in the driver's file. One
// function may have several names, so that a name alone does not tell.
func places(table []entry) map[uint64]string {
	out := map[uint64]string{}
	for _, e := range table {
		if e.Asked != "" {
			out[e.AskedAt] = e.Export
		}
	}
	for _, e := range table { // what dlsym says is the name for sure
		if e.Plain != "" {
			out[e.PlainAt] = e.Export
		}
	}
	return out
}

// shimFile is the object that a hooked function must come from.
const shimFile = "libgpuwhisk.so"

// checkPointers holds dlsym against cuGetProcAddress for every line of
// abi.def, without and with the shim. The driver may give two pointers for one
// function; under the shim both must be the shim's.
func checkPointers(ctx context.Context, b *bed, r *Result) error {
	bare, err := b.pointers(ctx, b.env())
	if err != nil {
		return err
	}
	c, err := b.box()
	if err != nil {
		return err
	}
	hooked, err := b.pointers(ctx, b.under(c))
	if err != nil {
		return fmt.Errorf("under the shim: %w", err)
	}
	if len(bare) != len(hooked) {
		return fmt.Errorf("%d lines without the shim, %d under it", len(bare), len(hooked))
	}
	judgeBare(r, bare)
	judgeHooked(r, bare, hooked)
	judgeNewest(r, bare)
	return nil
}

func (b *bed) pointers(ctx context.Context, env []string) ([]entry, error) {
	cmd := exec.CommandContext(ctx, b.progs.pointers)
	cmd.Env = env
	said := &tail{}
	cmd.Stderr = said
	out, runErr := cmd.Output()
	var entries []entry
	s := bufio.NewScanner(bytes.NewReader(out))
	for s.Scan() {
		var e entry
		if err := decode(s.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("pointers: %w", err)
		}
		entries = append(entries, e)
	}
	if runErr != nil {
		return nil, fmt.Errorf("pointers: %w%s", runErr, said.said())
	}
	if len(entries) == 0 {
		return nil, errors.New("pointers: no answer")
	}
	return entries, nil
}

// judgeBare tells whether the driver's two ways agree. Where they do not, the
// shim knows both pointers: that is no fault.
func judgeBare(r *Result, bare []entry) {
	var same, missing int
	differ := r.table("Where dlsym and cuGetProcAddress differ", "export", "asked for", "dlsym", "cuGetProcAddress", "its export")
	for _, e := range bare {
		switch {
		case e.Plain == "" || e.Asked == "":
			missing++
		case e.Plain == e.Asked:
			same++
		default:
			differ.row(e.Export, fmt.Sprintf("%s %d flags %d", e.Base, e.Version, e.Flags), e.Plain, e.Asked, e.AskedName)
		}
	}
	r.note("Of %d lines of abi.def the driver gives the same pointer both ways for %d, another for %d, and lacks %d one way or both.",
		len(bare), same, len(differ.Rows), missing)
	gone := r.table("What the driver lacks", "export", "dlsym", "cuGetProcAddress")
	for _, e := range bare {
		if e.Plain == "" || e.Asked == "" {
			gone.row(e.Export, has(e.Plain), has(e.Asked))
		}
	}
}

func has(pointer string) string {
	if pointer == "" {
		return "no"
	}
	return "yes"
}

// judgeHooked tells whether every hooked function that the driver has comes
// from the shim, both ways.
func judgeHooked(r *Result, bare, hooked []entry) {
	var all, missed int
	past := r.table("Hooked functions that come past the shim", "export", "way", "from")
	for i, e := range hooked {
		if !e.Hook {
			continue
		}
		for _, way := range []struct{ name, bare, of string }{
			{"dlsym", bare[i].Plain, e.PlainOf},
			{"cuGetProcAddress", bare[i].Asked, e.AskedOf},
		} {
			if way.bare == "" {
				continue
			}
			all++
			if way.of != shimFile {
				missed++
				past.row(e.Export, way.name, orUnknown(way.of))
			}
		}
	}
	r.must(fmt.Sprintf("of %d lookups of hooked functions, past the shim", all), float64(missed), "", "0", all > 0 && missed == 0)
}

// judgeNewest looks for ABIs of hooked functions that are newer than the
// table: a program built for this driver's CUDA gets those past the shim.
func judgeNewest(r *Result, bare []entry) {
	known := places(bare)
	newer := r.table("ABIs of hooked functions that the table lacks", "asked for", "the driver's newest")
	seen := map[string]bool{}
	for _, e := range bare {
		if _, in := known[e.NewestAt]; !e.Hook || e.Newest == "" || in || seen[e.Newest] {
			continue
		}
		seen[e.Newest] = true
		newer.row(e.Base, e.NewestName)
	}
	r.judge("ABIs of hooked functions that the table lacks", float64(len(newer.Rows)), "", "0", len(newer.Rows) == 0)
	if n := strangers(bare); len(n) > 0 {
		r.note("cuGetProcAddress gives pointers that are no exports for: %s.", strings.Join(n, ", "))
	}
}

func strangers(bare []entry) []string {
	var out []string
	for _, e := range bare {
		if e.AskedName == "?" {
			out = append(out, e.Export)
		}
	}
	return out
}
