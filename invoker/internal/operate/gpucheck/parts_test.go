package gpucheck

import (
	"context"
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// script starts a shell program that answers as a worker does.
func script(ctx context.Context, t *testing.T, text string) (*program, error) {
	t.Helper()
	peertest.Tool(t, "sh")
	p, err := startProgram(ctx, "script", []string{"sh", "-c", text}, os.Environ())
	if err == nil {
		t.Cleanup(func() { p.end(0) })
	}
	return p, err
}

func TestProgramAnswers(t *testing.T) {
	p, err := script(t.Context(), t, `echo '{"device": "D"}'; read l; echo "{\"block\": ${l#alloc }}"; read l; echo '{"error": "no memory"}'; echo on stderr >&2; read l; exit 3`)
	check.NoError(t, err)
	check.Equal(t, p.hello.Device, "D")
	var a answer
	check.NoError(t, catch(func() { a = p.ask("alloc %d", 7) }))
	check.Equal(t, a.Block, 7)
	check.ErrorContains(t, catch(func() { p.ask("fill") }), "no memory")
	check.ErrorContains(t, catch(func() { p.ask("work") }), "ended (it printed: on stderr)")
}

func TestProgramThatDoesNotAnswer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := script(ctx, t, `sleep 60 & wait`); err == nil {
		t.Error("a program that answers nothing was taken as started")
	}
}

func TestProgramThatAnswersNonsense(t *testing.T) {
	for _, text := range []string{`echo nonsense`, `echo '{"error": "no driver"}'`, `true`, `exit 1`} {
		if _, err := script(t.Context(), t, text); err == nil {
			t.Errorf("%q was taken as started", text)
		}
	}
}

func TestSomeMemoryIsLeftFree(t *testing.T) {
	f := &fixture{device: answer{Free: 1000 << 20}}
	var s errSkip
	if err := catch(func() { f.take(901 << 20) }); !errors.As(err, &s) {
		t.Errorf("more than nine tenths of the free memory: %v", err)
	}
	if err := catch(func() { f.take(900 << 20) }); err != nil {
		t.Errorf("up to nine tenths of the free memory: %v", err)
	}
}

func TestBudgetsFitTheLimit(t *testing.T) {
	of, all, err := Defaults().chosen()
	check.NoError(t, err)
	check.Equal(t, len(of), len(steps))
	check.Equal(t, all, Defaults().Limit)
	some, less, err := Settings{Only: []string{"swap", "pair"}, Skip: []string{"pair"}}.chosen()
	check.NoError(t, err)
	check.Equal(check.Must(t), len(some), 1)
	check.Equal(t, less, some[0].budget)
	_, _, err = Settings{Only: []string{"swap"}, Skip: []string{"swap"}}.chosen()
	check.That(t, errors.Is(err, ErrCannotRun))
}

func TestEnvironmentOfPrograms(t *testing.T) {
	f := &fixture{dir: "/d", s: Settings{FakeDriver: "/fake", Environ: []string{
		"HOME=/h", "LD_PRELOAD=/other.so", "LD_AUDIT=/a.so", "GPUWHISK_SHIM_LIMIT=5", "LD_LIBRARY_PATH=/lib1:/lib2",
	}}}
	got := f.env("X=1")
	want := []string{"FAKE_CUDA_STATE=/d/device", "HOME=/h", "LD_LIBRARY_PATH=/fake:/lib1:/lib2", "CUPY_CACHE_DIR=/d/cupy", "X=1"}
	check.EqualSlices(t, got, want)
	f.s.FakeDriver = ""
	want = []string{"FAKE_CUDA_STATE=/d/device", "HOME=/h", "LD_LIBRARY_PATH=/lib1:/lib2", "CUPY_CACHE_DIR=/d/cupy"}
	check.EqualSlices(t, f.env(), want)
}

func TestSameBus(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"00000000:1A:00.0", "0000:1a:00.0", true},
		{"00000000:1A:00.0", "0000:1b:00.0", false},
		{"00000001:1A:00.0", "0000:1a:00.0", false},
		{"", "", false},
		{"nonsense", "0000:1a:00.0", false},
	} {
		check.Equal(t, sameBus(c.a, c.b), c.want, "%q and %q", c.a, c.b)
	}
}

func TestHookedFunctionPastTheShim(t *testing.T) {
	bare := []entry{{Base: "cuMemAlloc", Export: "cuMemAlloc_v2", Hook: true, Plain: pointer{Is: "0x1"}, Asked: pointer{Is: "0x1"}}}
	for _, c := range []struct {
		plainOf, askedOf string
		want             Verdict
	}{
		{shimFile, shimFile, Well},
		{shimFile, "libcuda.so.1", Failed},
		{"libcuda.so.1", shimFile, Failed},
	} {
		hooked := []entry{bare[0]}
		hooked[0].Plain.Of, hooked[0].Asked.Of = c.plainOf, c.askedOf
		var r Result
		judgeHooked(&r, bare, hooked)
		r.conclude(nil)
		check.Equal(t, r.Verdict, c.want, "dlsym from %s, cuGetProcAddress from %s", c.plainOf, c.askedOf)
	}
}

func TestNewerABIIsReported(t *testing.T) {
	bare := []entry{
		{Base: "cuMemAlloc", Export: "cuMemAlloc_v2", Hook: true, Plain: pointer{Is: "0x1", At: 1}, Newest: pointer{Is: "0x9", At: 9, Name: "cuMemAlloc_v3"}},
		{Base: "cuInit", Export: "cuInit", Hook: true, Plain: pointer{Is: "0x2", At: 2}, Newest: pointer{Is: "0x2", At: 2, Name: "cuInit_alias"}},
		{Base: "cuMemFree", Export: "cuMemFree_v2", Hook: true, Plain: pointer{Is: "0x3", At: 3}},                                   // the driver has no newer one
		{Base: "cuCtxSynchronize", Export: "cuCtxSynchronize", Plain: pointer{Is: "0x4", At: 4}, Newest: pointer{Is: "0x8", At: 8}}, // not hooked
	}
	var r Result
	judgeNewest(&r, bare)
	r.conclude(nil)
	check.Equal(t, r.Verdict, Below)
	check.Equal(check.Must(t), len(r.Tables[0].Rows), 1)
	check.Equal(t, r.Tables[0].Rows[0][1], "cuMemAlloc_v3")
}

// Pages that the driver keeps until they are asked for are no fault once another
// process got them.
func TestKeptPagesThatAreGivenAreWell(t *testing.T) {
	goals := RealGoals()
	f := &fixture{s: Settings{Goals: &goals}, witness: "no NVML"}
	for _, c := range []struct {
		s    left
		want Verdict
	}{
		{left{least: 1, leastNVML: 1}, Well},
		{left{least: 1, leastNVML: 0}, Below},
		{left{least: 0, leastNVML: 0}, Below},
		{left{least: 0, leastNVML: math.Inf(1), asked: true}, Below},
		{left{least: 0, leastNVML: 0, asked: true, given: true}, Well},
	} {
		var r Result
		(&trial{fixture: f, Result: &r}).judgeLeft(c.s)
		r.conclude(nil)
		check.Equal(t, r.Verdict, c.want, "%+v", c.s)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"block": 1}`))
	f.Add([]byte(`{"error": "x"}`))
	f.Add([]byte(`{"ns": -1, "in": [1]}`))
	f.Add([]byte(`nonsense`))
	f.Fuzz(func(t *testing.T, line []byte) {
		_ = decode(line, &answer{})
		_ = decode(line, &entry{})
	})
}
