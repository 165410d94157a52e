package gpucheck

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// wanted is what one program asked of the driver.
type wanted struct {
	linked, looked, asked map[string]bool // by dlsym, by cuGetProcAddress
	// newer are questions for a hooked function that led to an ABI which the
	// table lacks.
	newer map[string]bool
	// raw are questions whose answer is no export.
	raw     map[string]bool
	objects []string
}

// subject is a program that is listened to.
type subject struct {
	name string
	args []string
	env  []string
}

// checkSymbols listens to what programs ask of the driver and holds it against
// abi.def: what allocates memory and is not in the table would not be seen.
func checkSymbols(ctx context.Context, b *bed, r *Result) error {
	table, err := b.pointers(ctx, b.env())
	if err != nil {
		return err
	}
	subjects := b.subjects(ctx)
	heard, failures := make([]*wanted, len(subjects)), make([]error, len(subjects))
	var g errgroup.Group
	g.SetLimit(3)
	for i, s := range subjects {
		g.Go(func() error {
			heard[i], failures[i] = b.listen(ctx, i, s, table)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	t := r.table("What each program got of the driver", "program", "linked", "dlsym", "cuGetProcAddress", "of them in abi.def")
	for i, s := range subjects {
		if w := heard[i]; w != nil {
			t.row(s.name, fmt.Sprint(len(w.linked)), fmt.Sprint(len(w.looked)), fmt.Sprint(len(w.asked)), fmt.Sprint(w.known(table)))
		} else {
			failures[i] = fmt.Errorf("%s: %w", s.name, failures[i])
		}
	}
	judgeSymbols(r, subjects, heard, table)
	return errors.Join(failures...)
}

func (b *bed) subjects(ctx context.Context) []subject {
	out := []subject{{name: "C, dlsym", args: []string{b.progs.worker}}}
	if b.importable(ctx, "ctypes") {
		out = append(out, subject{name: "Python, ctypes", args: []string{b.s.Python, "-B", "-c",
			"import sys; sys.path.insert(0, sys.argv[1]); import gpufunc; print(gpufunc.main({'bytes': 1 << 20}))", b.progs.scripts}})
	}
	if !b.frameworks() {
		return out
	}
	seen := map[string]bool{}
	for _, f := range frameworks() {
		if !seen[f.module] && b.importable(ctx, f.module) {
			seen[f.module] = true
			out = append(out, subject{f.name, b.python(f.script), f.env})
		}
	}
	return out
}

// listen runs a program under the audit library. Those that take orders
// allocate and fill a block; the others do what they do.
func (b *bed) listen(ctx context.Context, i int, s subject, table []entry) (*wanted, error) {
	log := filepath.Join(b.dir, fmt.Sprintf("trace-%d", i))
	env := b.env(append(s.env, "LD_AUDIT="+b.progs.trace, "GPUWHISK_TRACE="+log)...)
	if s.args[len(s.args)-1] == b.progs.scripts { // it prints one line that is no JSON
		if err := b.once(ctx, s, env); err != nil {
			return nil, err
		}
	} else {
		p, err := b.start(ctx, s.name, s.args, env, nil)
		if err != nil {
			return nil, err
		}
		var a blockAnswer
		if err := p.do(ctx, &a, "alloc %d", 4<<20); err != nil {
			return nil, err
		}
		if err := p.do(ctx, nil, "fill %d 1", a.Block); err != nil {
			return nil, err
		}
		p.leave()
	}
	w, err := readTrace(log, table)
	if err != nil {
		return nil, err
	}
	w.addLinked()
	return w, nil
}

func (b *bed) once(ctx context.Context, s subject, env []string) error {
	cmd := execCommand(ctx, s.args, env)
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w%s", err, said.said())
	}
	return nil
}

// readTrace reads what trace.c wrote.
func readTrace(path string, table []entry) (*wanted, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	bases, known := map[string]bool{}, places(table)
	for _, e := range table {
		if e.Hook {
			bases[e.Base] = true
		}
	}
	w := &wanted{
		linked: map[string]bool{}, looked: map[string]bool{}, asked: map[string]bool{},
		newer: map[string]bool{}, raw: map[string]bool{},
	}
	s := bufio.NewScanner(f)
	for s.Scan() {
		w.take(strings.Fields(s.Text()), bases, known)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	if len(w.looked)+len(w.linked) == 0 {
		return nil, errors.New("nothing of the program was heard")
	}
	return w, nil
}

func (w *wanted) take(words []string, bases map[string]bool, known map[uint64]string) {
	switch {
	case len(words) == 2 && words[0] == "object":
		w.objects = append(w.objects, words[1])
	case len(words) == 2 && words[0] == "linked":
		w.linked[words[1]] = true
	case len(words) == 2 && words[0] == "dlsym":
		w.looked[words[1]] = true
	case len(words) == 6 && words[0] == "asked" && words[4] != "-": // the driver has it
		w.answered(words[1], words[2], words[4], words[5], bases, known)
	}
}

// answered notes what came of a question to cuGetProcAddress.
func (w *wanted) answered(base, version, name, place string, bases map[string]bool, known map[uint64]string) {
	at, err := strconv.ParseUint(place, 10, 64)
	export, in := known[at]
	switch {
	case err != nil:
		return // no line of ours
	case in:
		name = export
	case bases[base]:
		v, _ := strconv.Atoi(version) // 0 of what is none
		w.newer[fmt.Sprintf("%s at %d.%d: %s", base, v/1000, v%1000/10, name)] = true
	}
	if name == "?" {
		w.raw[base] = true
		name = base
	}
	w.asked[name] = true
}

// addLinked adds what loaded objects take of the driver by their symbol
// tables: an address that is taken is bound unheard.
func (w *wanted) addLinked() {
	for _, path := range w.objects {
		f, err := elf.Open(path)
		if err != nil {
			continue // such as the kernel's own object, which is no file
		}
		needs, err := f.ImportedLibraries()
		if err == nil && slices.ContainsFunc(needs, func(n string) bool { return strings.HasPrefix(n, "libcuda.so") }) {
			w.addImports(f)
		}
		_ = f.Close() // only read
	}
}

func (w *wanted) addImports(f *elf.File) {
	symbols, err := f.ImportedSymbols()
	if err != nil {
		return
	}
	for _, s := range symbols {
		if isDriver(s.Name) {
			w.linked[s.Name] = true
		}
	}
}

// isDriver tells the driver's names from those of the runtime and libraries:
// cuMemAlloc, not cudaMalloc or cublasCreate.
func isDriver(name string) bool {
	return len(name) > 2 && strings.HasPrefix(name, "cu") && name[2] >= 'A' && name[2] <= 'Z'
}

// all are the names of everything that a program got.
func (w *wanted) all() []string {
	set := map[string]bool{}
	for _, m := range []map[string]bool{w.linked, w.looked, w.asked} {
		for n := range m {
			set[n] = true
		}
	}
	out := make([]string, 0, len(set))
	for n := range set {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

func (w *wanted) known(table []entry) int {
	n := 0
	for _, name := range w.all() {
		if slices.ContainsFunc(table, func(e entry) bool { return e.Export == name }) {
			n++
		}
	}
	return n
}
