package sim

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestCatalogueIsThePapersTable(t *testing.T) {
	fns := catalogue
	if len(fns) != 8 {
		t.Fatalf("%d functions, want 8", len(fns))
	}
	for _, f := range fns {
		if err := f.validate(); err != nil {
			t.Error(err)
		}
	}
	roberta := named("roberta", "x")
	check.Equal(t, roberta.Warm, 268*time.Millisecond)
	check.Equal(t, roberta.Cold, 15481*time.Millisecond)
}

func TestZipfHasTheLoadThatWasAskedFor(t *testing.T) {
	sum := 0.0
	const seeds = 20
	for seed := uint64(1); seed <= seeds; seed++ {
		w := generate(t, "zipf", func(s *Spec) { s.Seed, s.Load, s.Capacity, s.Duration = seed, 0.5, 2, time.Hour })
		sum += w.Load()
	}
	if got := sum / seeds; math.Abs(got-1) > 0.1 {
		t.Errorf("mean load %.3f, want 0.5 of a capacity of 2", got)
	}
}

func TestAzureSamplesHaveThePublishedRates(t *testing.T) {
	for id, sample := range azureSamples {
		rate, load := 0.0, 0.0
		const seeds = 8
		for seed := uint64(1); seed <= seeds; seed++ {
			w := generate(t, "azure", func(s *Spec) { s.Seed, s.TraceID, s.Duration, s.WarmShare = seed, id, time.Hour, 1 })
			rate += float64(len(w.Arrivals)) / w.Horizon.Seconds()
			load += w.Load()
			if len(w.Functions) != sample.functions {
				t.Errorf("sample %d: %d functions, want %d", id, len(w.Functions), sample.functions)
			}
		}
		rate, load = rate/seeds, load/seeds
		check.AtMost(t, math.Abs(rate/sample.rate-1), 0.15, "sample %d: %.2f req/s, want %.2f", id, rate, sample.rate)
		check.AtMost(t, math.Abs(load/sample.utilization-1), 0.15, "sample %d: load %.3f, want %.3f", id, load, sample.utilization)
	}
}

func TestCopiesArriveAsInTheExperiment(t *testing.T) {
	w := generate(t, "copies", func(s *Spec) { s.Duration = 100 * time.Minute })
	var count [4]int
	for _, a := range w.Arrivals {
		if a.At < 50*time.Minute && a.Function >= 2 {
			t.Fatalf("%s called at %v", w.Functions[a.Function].Name, a.At)
		}
		count[a.Function]++
	}
	over := float64(count[0]) / float64(count[1])
	check.AtLeast(t, over, 1.8, "calls of low-1 over those of high-1")
	check.AtMost(t, over, 2.2, "calls of low-1 over those of high-1")
}

func TestDiurnalSwings(t *testing.T) {
	w := generate(t, "diurnal", func(s *Spec) { s.Duration = 3 * time.Hour })
	thirds := [3]int{}
	for _, a := range w.Arrivals {
		thirds[min(2, a.At*3/w.Horizon)]++
	}
	check.AtLeast(t, thirds[1], 2*thirds[0], "arrivals by third %v", thirds)
	check.AtLeast(t, thirds[1], 2*thirds[2], "arrivals by third %v", thirds)
}

func TestLiarLies(t *testing.T) {
	w := generate(t, "liar", func(s *Spec) { s.Duration = 10 * time.Minute })
	var long, short int
	for _, a := range w.Arrivals {
		if w.Functions[a.Function].Name != "liar" {
			continue
		}
		if a.Work == 8*time.Second {
			long++
		} else {
			short++
		}
	}
	check.Greater(t, long, 0)
	check.AtLeast(t, short, 3*long)
}

func TestAddingAFunctionLeavesTheOthersAlone(t *testing.T) {
	count := func(kind string) (n int) {
		for _, a := range generate(t, kind, nil).Arrivals {
			if a.Function == 0 {
				n++
			}
		}
		return n
	}
	if count("zipf") != count("hog") {
		t.Error("the hog changed another function's arrivals")
	}
}

func TestBadSpecsNameTheFlag(t *testing.T) {
	nan := math.NaN()
	for flag, change := range map[string]func(*Spec){
		"--workload":   func(s *Spec) { s.Kind = "tide" },
		"--count":      func(s *Spec) { s.Count = 0 },
		"--load":       func(s *Spec) { s.Load = nan },
		"--zipf":       func(s *Spec) { s.Zipf = -1 },
		"--trace-id":   func(s *Spec) { s.TraceID = 9 },
		"--warm-share": func(s *Spec) { s.WarmShare = 0 },
		"--duration":   func(s *Spec) { s.Duration = -1 },
		"--weight":     func(s *Spec) { s.Weight = nan },
		"no arrivals":  func(s *Spec) { s.Duration = time.Microsecond },
	} {
		s := DefaultSpec()
		change(&s)
		_, err := s.Build()
		check.ErrorContains(t, err, flag)
	}
}

func TestWorkloadValidate(t *testing.T) {
	good := func() *Workload {
		return &Workload{
			Name: "w", Horizon: time.Minute, Functions: []Function{{Name: "a", Warm: 1, Cold: 1}},
			Arrivals: []Arrival{{At: 1}, {At: 2}},
		}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Workload){
		"no functions": func(w *Workload) { w.Functions = nil },
		"no arrivals":  func(w *Workload) { w.Arrivals = nil },
		"back in time": func(w *Workload) { w.Arrivals[1].At = 0 },
		"past the end": func(w *Workload) { w.Arrivals[1].At = time.Hour },
		"negative":     func(w *Workload) { w.Arrivals[0].At = -1 },
		"no such":      func(w *Workload) { w.Arrivals[0].Function = 1 },
		"endless work": func(w *Workload) { w.Arrivals[0].Work = 1 << 62 },
		"no horizon":   func(w *Workload) { w.Horizon = 0 },
		"no warm":      func(w *Workload) { w.Functions[0].Warm = 0 },
		"cold below":   func(w *Workload) { w.Functions[0].Cold = 0 },
		"memory":       func(w *Workload) { w.Functions[0].Memory = -1 },
		"weight":       func(w *Workload) { w.Functions[0].Weight = math.NaN() },
		"without name": func(w *Workload) { w.Functions[0].Name = "" },
	} {
		w := good()
		change(w)
		if w.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

func TestEntryBuildsTheWorkloadOfEachSeed(t *testing.T) {
	spec := DefaultSpec()
	spec.Duration = time.Minute
	e := Entry{Spec: spec}
	for seed := range uint64(8) {
		got, err := e.Workload(seed)
		if err != nil {
			t.Fatal(err)
		}
		alone := spec
		alone.Seed = seed
		want, err := alone.Build()
		check.NoError(t, err, "seed %d", seed)
		check.That(t, reflect.DeepEqual(got, want), "seed %d: its own workload", seed)
	}
}
