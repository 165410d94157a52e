package gpucheck

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
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
	check.Equal(t, string(p.hello), `{"device": "D"}`)
	a, err := p.run("alloc", "7")
	check.NoError(t, err)
	check.Equal(t, a.numbers["block"], 7)
	_, err = p.run("fill")
	check.ErrorContains(t, err, "no memory")
	_, err = p.run("work")
	check.ErrorContains(t, err, "ended (it printed: on stderr)")
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
	f := &fixture{device: device{Free: 1000 << 20}, s: Settings{FakeDriver: "fake"}}
	var s errSkip
	if _, err := f.planned(step{Name: "pair", Block: block{Fake: 451 << 20}}); !errors.As(err, &s) {
		t.Errorf("more than nine tenths of the free memory: %v", err)
	}
	if _, err := f.planned(step{Name: "pair", Block: block{Fake: 450 << 20}}); err != nil {
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
	check.Equal(t, less, some[0].Budget)
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

// A typing error in steps.yaml is an error of the step, not a finding of 0.
func TestFigureWithoutNumbers(t *testing.T) {
	n := &numbers{named: map[string][]float64{"wrong.mismatches": {0}}}
	var r Result
	check.NoError(t, figure{Value: []string{"sum", "wrong.mismatches"}, What: "wrong words", Must: true}.judge(n, &r))
	check.ErrorContains(t, figure{Value: []string{"sum", "wrong.mismatches", "worng.mismatches"}, What: "wrong words", Must: true}.judge(n, &r), "no worng.mismatches was measured")
	check.Equal(t, len(r.Findings), 1)
}

func TestGoals(t *testing.T) {
	for _, c := range []struct {
		goal []string
		v    string
		met  bool
		text string
	}{
		{nil, "0", true, "0"},
		{nil, "0.5", false, "0"},
		{[]string{"exactly", "8"}, "8", true, "8"},
		{[]string{"exactly", "8"}, "7", false, "8"},
		{[]string{"at least", "0.9"}, "0.9", true, "at least 0.9"},
		{[]string{"at least", "0.9"}, "0.89", false, "at least 0.9"},
		{[]string{"at most", "2"}, "2", true, "at most 2"},
		{[]string{"at most", "2"}, "2.1", false, "at most 2"},
		{[]string{"more than", "0"}, "0", false, "more than 0"},
		{[]string{"more than", "0"}, "1", true, "more than 0"},
	} {
		for _, must := range []bool{false, true} {
			var r Result
			f := figure{Value: []string{"last", c.v}, What: "it", Goal: c.goal, Must: must}
			check.NoError(t, f.judge(&numbers{named: map[string][]float64{}}, &r))
			check.Equal(t, r.Findings[0].Verdict, pick(c.met, Well, pick(must, Failed, Below)), "%+v", c)
			check.Equal(t, r.Findings[0].Goal, c.text)
		}
	}
}

func TestTextsWithNumbers(t *testing.T) {
	n := &numbers{named: map[string][]float64{"a.ns": {3e6, 1e6, 2e6}, "b.speed": {9, 1, 3}, "c": {7}}}
	for text, want := range map[string]string{
		"${ms a.ns} ms, ${slowest a.ns} ms":         "2.00 ms, 3.00 ms",
		"${gbs b.speed[0]} then ${gbs b.speed[1:]}": "9.0 then 2.0",
		"take $c $a.ns": "take 7 2000000",
		"${share d} of ${count d} in ${size d}, 1 $ 1": "unknown of 0 in 0 B, 1 $ 1",
		"${size c}, ${count a.ns}, ${seconds a.ns}":    "7 B, 6000000, 0.01",
		"${late a.ns}": "3.00",
	} {
		check.Equal(t, n.expand(text), want)
	}
}

// Pages that the driver keeps until they are asked for are no fault once another
// process got them.
func TestKeptPagesThatAreGivenAreWell(t *testing.T) {
	goals := RealGoals()
	f := &fixture{s: Settings{Goals: &goals}, witness: "no NVML"}
	swap := steps[slices.Index(Names(), "swap")]
	swap.Block = block{Fake: 1 << 20}
	f.s.FakeDriver, f.s.Reclaim, f.device.Free = "fake", true, 1<<30
	p, err := f.planned(swap)
	check.NoError(t, err)
	for _, c := range []struct {
		free, byNVML float64 // share of the block; below 0: not reported
		given        float64
		want         Verdict
	}{
		{1, 1, 0, Well},
		{1, 0, 0, Below},
		{0, 0, 0, Below},
		{0, -1, 0, Below},
		{1, -1, 0, Well},
		{0, 0, 1, Well},
	} {
		n := &numbers{named: map[string][]float64{"full.free": {0, 0}, "empty.free": {1 << 20, c.free * (1 << 20)}, "given.given": {c.given}, "given.refused": {1 - c.given}}}
		if c.byNVML >= 0 {
			n.named["full.used"], n.named["empty.used"] = []float64{1 << 20, 1 << 20}, []float64{0, (1 - c.byNVML) * (1 << 20)}
		}
		var r Result
		for _, figure := range p.Trials[0].Figures {
			if figure.Key != "moved" && figure.Key != "stays" && (figure.What == "" || strings.Contains(figure.What, "free after an eviction")) {
				check.NoError(t, figure.judge(n, &r))
			}
		}
		r.conclude(nil)
		check.Equal(t, len(r.Findings), pick(c.byNVML < 0, 1, 2))
		check.Equal(t, r.Verdict, c.want, "%+v", c)
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"block": 1}`))
	f.Add([]byte(`{"error": "x"}`))
	f.Add([]byte(`{"ns": -1, "in": [1]}`))
	f.Add([]byte(`nonsense`))
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := decode(line)
		check.That(t, err != nil || a.Error == "" && a.numbers != nil)
	})
}
