package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// small are settings of a check on the fake driver that is soon over.
func small(t testing.TB, env ...string) Settings {
	t.Helper()
	dir := shimtest.Build(t)
	t.Setenv("FAKE_CUDA_STATE", filepath.Join(t.TempDir(), "state")) // the fake management library reads it
	if _, set := os.LookupEnv("FAKE_NVML_LIMITS"); !set {
		t.Setenv("FAKE_NVML_LIMITS", "all")
	}
	return Settings{
		Shim: dir, FakeDriver: filepath.Join(dir, "fake12"), Version: "test",
		Swap: 2 << 20, Set: 1 << 20, Containers: 5, Rounds: 2, RunTime: time.Millisecond,
		Limit: 10 * time.Minute, Environ: append(os.Environ(), env...),
	}
}

func runCheck(t *testing.T, s Settings) *Report {
	t.Helper()
	r, err := Run(t.Context(), s)
	check.NoError(t, err)
	return r
}

// runStep runs one step alone.
func runStep(t *testing.T, s Settings, name string) Result {
	t.Helper()
	s.Only = []string{name}
	return runCheck(t, s).step(t, name)
}

// step is one step's result.
func (r *Report) step(t *testing.T, name string) Result {
	t.Helper()
	for _, s := range r.Steps {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no step %s in %v", name, r.Steps)
	return Result{}
}

func TestWholeOnTheFakeDriver(t *testing.T) {
	peertest.Tool(t, "python3")
	s := small(t)
	// The functions need the whole program: its package tests them.
	s.Skip = []string{"end-to-end", "pressure"}
	var progress strings.Builder
	s.Progress = &progress
	r := runCheck(t, s)
	for _, step := range r.Steps {
		check.Equal(t, step.Verdict, pick(step.Name == "frameworks", Skipped, Well), "%s: %s, %+v", step.Name, step.Reason, step.Findings)
		check.Contains(t, progress.String(), step.Name)
	}
	seen(t, r)
	check.Equal(t, r.Verdict, Well)
	check.Equal(t, r.ExitCode(), 0)
	check.That(t, r.Fake)
	check.Contains(t, r.Name(), "fake")
	check.Equal(t, r.Card, "Fake GPU 0")
	facts := map[string]string{}
	for _, f := range r.Facts {
		facts[f.Name] = f.Value
	}
	check.Contains(t, facts["driver"], "fake driver: ")
	check.Contains(t, facts["device"], "Fake GPU 0, 16.0 GiB")
	check.Contains(t, facts["machine"], fmt.Sprintf("%d cores", runtime.NumCPU()))
}

// seen compares a step with what it must have tried: one that tried
// nothing would be well, too.
func seen(t *testing.T, r *Report) {
	t.Helper()
	for name, words := range map[string][]string{
		"pointers": {"past the shim", "the table lacks"},
		"swap":     {"wrong words in managed memory", "counted by the shim in managed memory", "moved in managed memory", "by cuMemGetInfo", "by NVML", "managed memory out, the first time: ", "managed memory out: ", "managed memory in: "},
		"fresh":    {"wrong words in fresh blocks"},
		"large":    {"wrong words in managed memory", "managed memory out, the first time: ", "managed memory in: "},
		"vmm":      {"wrong words in managed memory", "wrong words in mapped handles", "free after an eviction", "mapped handles out, the first time: ", "mapped handles in: "},
		"graph":    {"wrong words in managed memory"},
		"cgroups":  {"listed by NVML for its process", "counted by the limit of its control group", "plain memory given beyond the limit", "managed memory beyond the limit"},
		"pair":     {"wrong words in both"},
		"prefetch": {"wrong words in all containers", "moved out for others", "after its prefetch"},
		"overhead": {"FFT", "GEMM", "small kernels"},
	} {
		var findings strings.Builder
		for _, f := range r.step(t, name).Findings {
			findings.WriteString(f.What + "\n")
		}
		for _, w := range words {
			check.Contains(t, findings.String(), w, "%s", name)
		}
	}
}

func TestDriverWithTwoPointersForOneFunction(t *testing.T) {
	step := runStep(t, small(t, "FAKE_CUDA_SPLIT=1"), "pointers")
	if step.Verdict != Well {
		t.Errorf("%s: %s, %+v", step.Verdict, step.Reason, step.Findings)
	}
	if len(step.Tables[0].Rows) < 50 {
		t.Errorf("%d functions have two pointers, want nearly all", len(step.Tables[0].Rows))
	}
}

// The step on frameworks, on workers that the fake driver serves: started at
// once, swapped one after the other, with and without a graph.
func TestFrameworks(t *testing.T) {
	peertest.Tool(t, "python3")
	peertest.Tool(t, "sh")
	python, err := filepath.Abs("testdata/python")
	check.NoError(t, err)
	s := small(t)
	s.Python, s.frameworks, s.Only = python, true, []string{"frameworks", "overhead"}
	r := runCheck(t, s)
	for _, name := range s.Only {
		step := r.step(t, name)
		check.Equal(t, step.Verdict, Well, "%s: %s, %+v", name, step.Reason, step.Findings)
	}
	rows := r.step(t, "frameworks").Tables[0].Rows
	if len(rows) != len(frameworks()) {
		t.Errorf("%d frameworks of %d: %v", len(rows), len(frameworks()), rows)
	}
	for _, row := range rows {
		beside := slices.ContainsFunc(r.step(t, "frameworks").Findings, func(f Finding) bool {
			return f.What == "MiB that NVML lists beside the memory of "+row[0]
		})
		if !beside {
			t.Errorf("%s: its memory beside its allocations is not measured", row[0])
		}
		if graph := row[len(row)-1]; graph != "0" && row[0] != "JAX" {
			t.Errorf("%s with a graph: %s", row[0], graph)
		}
	}
	for _, name := range s.Only {
		check.Contains(t, strings.Join(r.step(t, name).Remarks, "\n"), "PyTorch, default allocator: version: a stand-in", "%s", name)
	}
	if rows := r.step(t, "overhead").Tables[0].Rows; len(rows) != 6 {
		t.Errorf("%d workloads, want three of our own and three of a framework: %v", len(rows), rows)
	}
}

func frameworks() []holder { return steps[slices.Index(Names(), "frameworks")].Holders }

// The verdict is Below for a driver whose limits of control groups do not count managed
// memory, because the invoker must not use such limits. The verdict is Well for a driver
// that has no such limits.
func TestLimitsThatDoNotCountManagedMemory(t *testing.T) {
	for manner, want := range map[string]Verdict{"all": Well, "plain": Below, "none": Well} {
		t.Setenv("FAKE_NVML_LIMITS", manner)
		step := runStep(t, small(t), "cgroups")
		check.Equal(t, step.Verdict, want, "%s: %s, %+v", manner, step.Reason, step.Findings)
		check.Equal(t, strings.Contains(strings.Join(step.Says, "\n"), "You can set whisk.gpu.cgroup-limits"), manner == "all", "%s: %v", manner, step.Says)
		check.Equal(t, strings.Contains(strings.Join(step.Says, "\n"), "Leave whisk.gpu.cgroup-limits off"), manner == "none", "%s: %v", manner, step.Says)
	}
}

// A deliberately broken driver is never reported as well.
func TestBrokenDriverIsReported(t *testing.T) {
	for _, c := range []struct{ name, fail, step string }{
		{"moves refused", "cuMemPrefetchAsync_v2:0:2", "swap"},
		{"one move refused", "cuMemPrefetchAsync_v2:3:1", "swap"},
		{"no memory", "cuMemAllocManaged:2:2", "swap"},
		{"a launch refused", "cuLaunchKernel:3:719", "pair"},
		{"moves refused in turns", "cuMemPrefetchAsync_v2:0:2", "prefetch"},
		{"copies refused", "cuMemcpyHtoD_v2:0:1", "swap"},
		{"launches refused", "cuLaunchKernel:9:719", "overhead"},
		{"a graph's launch refused", "cuGraphLaunch:2:719", "graph"},
		{"a large block's move refused", "cuMemPrefetchAsync_v2:0:2", "large"},
		{"fresh memory refused", "cuMemAllocManaged:2:2", "fresh"},
		{"a mapping refused", "cuMemMap:5:2", "vmm"},
		{"an MPS client's launch refused", "cuLaunchKernel:3:719", "mps"},
		{"a control group's memory refused", "cuMemAllocManaged:1:2", "cgroups"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := small(t, "FAKE_CUDA_FAIL="+c.fail)
			s.Only = []string{c.step}
			r := runCheck(t, s)
			got := r.step(t, c.step)
			check.Equal(t, got.Verdict, Failed)
			check.That(t, got.Reason != "")
			check.Equal(t, r.ExitCode(), 1)
		})
	}
}

// A shim whose memory moves breaks the kernels of frameworks.
func TestBrokenFrameworksAreReported(t *testing.T) {
	peertest.Tool(t, "python3")
	python, err := filepath.Abs("testdata/python")
	check.NoError(t, err)
	s := small(t, "FAKE_CUDA_MOVED=700")
	s.Python, s.frameworks = python, true
	step := runStep(t, s, "frameworks")
	check.Equal(t, step.Verdict, Failed, "%s, %+v", step.Reason, step.Findings)
	for _, h := range frameworks() {
		if !h.VMM {
			check.Contains(t, step.Reason, h.Name)
		}
	}
}

// A library that does not hook anything is no shim.
func TestPointersPastTheShim(t *testing.T) {
	s := small(t)
	dir := t.TempDir()
	check.NoError(t, os.Symlink(filepath.Join(s.Shim, "check"), filepath.Join(dir, "check")))
	source := filepath.Join(dir, "empty.c")
	check.NoError(t, os.WriteFile(source, []byte("int nothing;\n"), 0o600))
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", filepath.Join(dir, shimFile), source).CombinedOutput()
	check.NoError(t, err, "%s", out)
	s.Shim = dir
	step := runStep(t, s, "pointers")
	check.Equal(t, step.Verdict, Failed)
	check.Contains(t, step.Reason, "past the shim")
}

// A shim that hooks one way of looking a function up, and not the other, is found out.
func TestPointersPastTheShimOneWay(t *testing.T) {
	for way, other := range map[string]string{"dlsym": "cuGetProcAddress", "cuGetProcAddress": "dlsym"} {
		s := small(t)
		dir := t.TempDir()
		check.NoError(t, os.Symlink(filepath.Join(s.Shim, "check"), filepath.Join(dir, "check")))
		out, err := exec.Command("cc", "-shared", "-fPIC", "-DWAY=\""+way+"\"", "-o", filepath.Join(dir, shimFile), "testdata/half.c").CombinedOutput()
		check.NoError(t, err, "%s", out)
		s.Shim = dir
		step := runStep(t, s, "pointers")
		check.Equal(t, step.Verdict, Failed, "%s", step.Reason)
		var past []string
		for _, row := range step.Tables[1].Rows {
			if row[0] == "cuMemAlloc_v2" {
				past = append(past, row[1])
			}
		}
		check.EqualSlices(t, past, []string{other})
	}
}

// A hooked function that the driver has in a newer version than abi.def is below: programs
// get it past the shim. Functions that are not hooked do not count.
func TestNewerABIIsReported(t *testing.T) {
	s := small(t)
	const lookup = "static void *lookup(const char *name, int version, uint64_t flags)\n{"
	s.FakeDriver = patched(t, lookup, "int cuMemAlloc_v3(void) { return 0; }\n"+lookup+
		"\n\tif ((!strcmp(name, \"cuMemAlloc\") || !strcmp(name, \"cuCtxSynchronize\")) && version > 12000)\n\t\treturn (void *)cuMemAlloc_v3;")
	step := runStep(t, s, "pointers")
	check.Equal(t, step.Verdict, Below, "%s", step.Reason)
	rows := step.Tables[2].Rows
	check.Equal(check.Must(t), len(rows), 1, "%v", rows)
	check.EqualSlices(t, rows[0], []string{"cuMemAlloc", "cuMemAlloc_v3"})
}

// A shim that makes launches slow is below.
func TestSlowLaunchesUnderTheShimAreBelow(t *testing.T) {
	s := small(t)
	const launch = "CUresult r = CUDA_SUCCESS;\n\tif (fake_captured(stream))"
	s.FakeDriver = patched(t, launch, "extern int usleep(unsigned);\n\textern char *getenv(const char *);\n"+
		"\tif (getenv(\"GPUWHISK_SHIM_SOCKET\"))\n\t\tusleep(20);\n\t"+launch)
	goals := RealGoals()
	s.Goals = &goals
	step := runStep(t, s, "overhead")
	check.Equal(t, step.Verdict, Below, "%s, %+v", step.Reason, step.Findings)
	check.Contains(t, step.Reason, "overhead on")
}

func TestOneFailedStepDoesNotStopTheOthers(t *testing.T) {
	s := small(t, "FAKE_CUDA_FAIL=cuMemPrefetchAsync_v2:0:2")
	s.Only = []string{"pointers", "swap", "overhead"}
	r := runCheck(t, s)
	check.Equal(t, r.step(t, "swap").Verdict, Failed)
	check.Equal(t, r.step(t, "overhead").Verdict, Well)
	check.Equal(t, r.Verdict, Failed)
}

// Moves that take longer than the driver's own, which go by its older entry point, are
// below, although all contents are right.
func TestSlowMovesAreBelow(t *testing.T) {
	s := small(t)
	s.FakeDriver = patched(t, "if (flags || to.type < LOCATION_DEVICE ||", "extern int usleep(unsigned);\n\tusleep(100000);\n\tif (flags || to.type < LOCATION_DEVICE ||")
	s.Only, s.Swap = []string{"swap"}, 256<<10
	goals := RealGoals()
	s.Goals = &goals
	r := runCheck(t, s)
	step := r.step(t, "swap")
	check.Equal(t, step.Verdict, Below, "%+v", step.Findings)
	check.Equal(t, r.Verdict, Below)
	check.Equal(t, r.ExitCode(), 1)
	for _, f := range step.Findings {
		slow := strings.Contains(f.What, "pinned copies")
		check.Equal(t, slow, f.Verdict == Below, "%s: %g", f.What, f.Value)
	}
}

// A driver that loses what it moved out is found out.
func TestLostContentsAreFound(t *testing.T) {
	s := small(t)
	s.FakeDriver = patched(t, "memcpy((uint8_t *)m->base + i * PAGE, stage_of(m) + i * PAGE, n);", "(void)n;")
	for _, name := range []string{"swap", "fresh", "large", "graph", "pair", "prefetch"} {
		step := runStep(t, s, name)
		check.Equal(check.Must(t), step.Verdict, Failed, "%s: %s, %+v", name, step.Reason, step.Findings)
		check.Contains(t, step.Findings[0].What, "wrong words", "%s", name)
		check.That(t, step.Findings[0].Value != 0, "%s", name)
	}
}

// A driver that keeps the pages of what has left, and gives them to no process,
// is below: no process got the memory.
func TestKeptPagesAreFound(t *testing.T) {
	s := small(t)
	s.FakeDriver = patched(t, "*kept -= some;\n\t\tlack -= some;", "(void)some;")
	step := runStep(t, s, "swap")
	check.Equal(t, step.Verdict, Below, "%+v", step.Findings)
	check.Contains(t, step.Reason, "free after an eviction")
	check.Contains(t, strings.Join(step.Remarks, "\n"), "did not get plain memory", "what asked for the memory")
}

// patched builds a fake driver that does one thing in another way.
func patched(t *testing.T, from, to string) string {
	t.Helper()
	source, err := filepath.Abs("../../../../shim/test/fake")
	check.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(source, "*.c"))
	check.NoError(t, err)
	dir, found := t.TempDir(), 0
	args := []string{"-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-Wl,-Bsymbolic", "-I" + source,
		"-Wl,-soname,libcuda.so.1", "-o", filepath.Join(dir, "libcuda.so.1")}
	for _, f := range files {
		text, err := os.ReadFile(f)
		check.NoError(t, err)
		if n := strings.Count(string(text), from); n > 0 {
			found += n
			f = filepath.Join(dir, "patched.c")
			// Headers are named from where the file was.
			changed := strings.ReplaceAll(strings.ReplaceAll(string(text), from, to), "../../", source+"/../../")
			check.NoError(t, os.WriteFile(f, []byte(changed), 0o600))
		}
		args = append(args, f)
	}
	age := filepath.Join(dir, "age.c")
	check.NoError(t, os.WriteFile(age, []byte("const int fake_generation = 12;\n"), 0o600))
	args = append(args, age)
	if found != 1 {
		t.Fatalf("the fake driver has the text to change %d times, want 1", found)
	}
	if out, err := exec.Command("cc", append(args, "-lpthread")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

func TestWhatCannotRun(t *testing.T) {
	dir := shimtest.Build(t)
	empty := t.TempDir()
	for name, change := range map[string]func(*Settings){
		"no shim":            func(s *Settings) { s.Shim = empty },
		"no programs":        func(s *Settings) { s.Shim = shimAlone(t, dir) },
		"fake and not named": func(s *Settings) { s.FakeDriver = ""; s.Environ = append(s.Environ, "LD_LIBRARY_PATH="+dir+"/fake12") },
		"no device":          func(s *Settings) { s.Environ = append(s.Environ, "FAKE_CUDA_DEVICES=0") },
		"unknown step":       func(s *Settings) { s.Only = []string{"swap", "nonsense"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := small(t)
			change(&s)
			if _, err := Run(t.Context(), s); !errors.Is(err, ErrCannotRun) {
				t.Errorf("error %v, want an error that wraps ErrCannotRun", err)
			}
		})
	}
}

// shimAlone is a directory with the shim and without the programs.
func shimAlone(t *testing.T, dir string) string {
	t.Helper()
	alone := t.TempDir()
	check.NoError(t, os.Symlink(filepath.Join(dir, "libgpuwhisk.so"), filepath.Join(alone, "libgpuwhisk.so")))
	return alone
}

// A card that has too little free is left alone.
func TestLittleFreeMemory(t *testing.T) {
	step := runStep(t, small(t, "FAKE_CUDA_MEMORY=3000000"), "prefetch")
	check.Equal(t, step.Verdict, Skipped)
	check.Contains(t, step.Reason, "free")
	step = runStep(t, small(t, "FAKE_CUDA_MEMORY=200000000"), "swap") // less than the margin that a worker keeps
	check.Equal(t, step.Verdict, Failed)
	check.Contains(t, step.Reason, "not enough free device memory")
}

func TestOutOfTime(t *testing.T) {
	s := small(t, "FAKE_CUDA_BANDWIDTH=1000")
	s.Only, s.Limit = []string{"swap", "pair"}, 2*time.Second
	r := runCheck(t, s)
	for _, step := range r.Steps {
		check.Equal(t, step.Verdict, Failed, "%s", step.Name)
		check.Contains(t, step.Reason, "out of time", "%s", step.Name)
	}
}

func TestInterrupted(t *testing.T) {
	s := small(t)
	s.Only = []string{"pointers", "swap", "pair"}
	ctx, cancel := context.WithCancel(t.Context())
	saved := 0
	s.Save = func(r *Report) {
		saved++
		check.Equal(t, len(r.Steps), saved)
		cancel() // after the first step
	}
	r, err := Run(ctx, s)
	check.NoError(t, err)
	check.Equal(t, saved, 3)
	check.Equal(t, r.step(t, "pointers").Verdict, Well)
	for _, name := range []string{"swap", "pair"} {
		check.Equal(t, r.step(t, name).Verdict, Failed, "%s", name)
		check.Contains(t, r.step(t, name).Reason, "interrupted", "%s", name)
	}
	check.Equal(t, r.Verdict, Failed)
	cancel()
	if r, err := Run(ctx, s); err == nil {
		t.Errorf("verdict %s of a check that was interrupted before it began", r.Verdict)
	}
}
