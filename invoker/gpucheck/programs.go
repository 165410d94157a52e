package gpucheck

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are the files that the check runs.
type programs struct {
	shim                    string // libgpuwhisk.so
	worker, pointers, trace string
	scripts                 string // directory of the workers in Python
	how                     string // where they came from
}

// recipe says how one program is made from the shim's source.
type recipe struct {
	name  string
	flags []string
	files []string
}

func recipes() []recipe {
	return []recipe{
		{"worker", nil, []string{"check/worker.c", "check/device.c"}},
		{"pointers", nil, []string{"check/pointers.c"}},
		{"libtrace.so", []string{"-fPIC", "-fvisibility=hidden", "-shared"}, []string{"check/trace.c"}},
	}
}

// findPrograms takes the programs that lie ready beside the shim, or builds
// them into dir where a C compiler is there.
func findPrograms(ctx context.Context, s Settings, dir string) (programs, error) {
	shim, err := filepath.Abs(s.Shim)
	if err != nil {
		return programs{}, fmt.Errorf("find shim: %w", err)
	}
	p := programs{shim: filepath.Join(shim, "libgpuwhisk.so")}
	if !exists(p.shim) {
		return p, fmt.Errorf("%s is not there; build it with make shim: %w", p.shim, ErrCannotRun)
	}
	ready := filepath.Join(shim, "check")
	if complete(ready) {
		return p.at(ready, "built beforehand"), nil
	}
	if s.Source == "" {
		return p, fmt.Errorf("%s lacks the programs of the check; build them with make -C shim/check: %w", ready, ErrCannotRun)
	}
	if err := build(ctx, s.Compiler, s.Source, dir); err != nil {
		return p, err
	}
	return p.at(dir, "built now"), nil
}

func (p programs) at(dir, how string) programs {
	p.worker, p.pointers = filepath.Join(dir, "worker"), filepath.Join(dir, "pointers")
	p.trace, p.scripts, p.how = filepath.Join(dir, "libtrace.so"), dir, how
	return p
}

func complete(dir string) bool {
	for _, r := range recipes() {
		if !exists(filepath.Join(dir, r.name)) {
			return false
		}
	}
	return exists(filepath.Join(dir, "lines.py"))
}

func build(ctx context.Context, cc, source, dir string) error {
	if _, err := exec.LookPath(cc); err != nil {
		return fmt.Errorf("no C compiler to build the programs of the check with, and none built beforehand: %w", ErrCannotRun)
	}
	for _, r := range recipes() {
		args := append([]string{"-std=c11", "-D_GNU_SOURCE", "-O2", "-o", filepath.Join(dir, r.name)}, r.flags...)
		for _, f := range r.files {
			args = append(args, filepath.Join(source, f))
		}
		args = append(args, "-ldl")
		if text, err := exec.CommandContext(ctx, cc, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s: %w", r.name, err, strings.TrimSpace(string(text)), ErrCannotRun)
		}
	}
	return copyScripts(source, dir)
}

func copyScripts(source, dir string) error {
	scripts, err := filepath.Glob(filepath.Join(source, "check", "*.py"))
	if err != nil {
		return fmt.Errorf("find workers in Python: %w", err)
	}
	scripts = append(scripts, filepath.Join(source, "examples", "gpufunc.py"))
	for _, from := range scripts {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(from)), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("copy worker: %w", err)
		}
	}
	return nil
}
