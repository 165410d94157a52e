package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// system is one whose calls take their time in a bubble's clock.
type system struct {
	invoke func(ctx context.Context, action string) Answer
	start  func(id string) string
}

func (s system) Invoke(ctx context.Context, action string) Answer { return s.invoke(ctx, action) }

func (s system) Start(_ context.Context, id string) string { return s.start(id) }

// takes answers each call after so long.
func takes(d time.Duration) system {
	return system{invoke: func(ctx context.Context, _ string) Answer {
		select {
		case <-time.After(d):
			return Answer{ID: "x", Ran: true}
		case <-ctx.Done():
			return Answer{Failure: failureSlow}
		}
	}}
}

// every has a call of the first action each so often, n times.
func every(d time.Duration, n int) func(func(Arrival) bool) {
	return func(yield func(Arrival) bool) {
		for i := range n {
			if !yield(Arrival{At: time.Duration(i) * d}) {
				return
			}
		}
	}
}

// sent are the calls that were made.
func sent(r *Result) []Call {
	return slices.DeleteFunc(slices.Clone(r.Calls), func(c Call) bool { return c.Failure == failureUnsent })
}

func latencies(r *Result) []time.Duration {
	var all []time.Duration
	for _, c := range sent(r) {
		all = append(all, c.Latency)
	}
	slices.Sort(all)
	return all
}

// A system that takes longer than the distance of calls is sent each of them in
// its time.
func TestTheLoadIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := 0
		r := Run(t.Context(), Options{Actions: []string{"a"}, Arrivals: every(time.Second, 10), Duration: time.Minute,
			InFlight: 100, Wait: time.Minute, Progress: func(p Progress) { most = max(most, p.Sent-p.Answered) }}, takes(5500*time.Millisecond))
		for _, c := range r.Calls {
			if c.Late != 0 || c.Latency != 5500*time.Millisecond {
				t.Errorf("%+v", c)
			}
		}
		if len(r.Calls) != 10 || r.Took != 14500*time.Millisecond || most < 5 {
			t.Errorf("%d calls in %v, %d under way", len(r.Calls), r.Took, most)
		}
	})
}

// When a call must wait for a slot its latency holds that wait, and what did
// not get one before the end is counted.
func TestAWaitForASlotIsLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Actions: []string{"a"}, Arrivals: every(time.Second, 8), Duration: 7500 * time.Millisecond, InFlight: 1, Wait: time.Minute}
		r := Run(t.Context(), o, takes(2*time.Second))
		if got := fmt.Sprint(latencies(r)); got != "[2s 3s 4s 5s]" || len(r.Calls) != 8 {
			t.Errorf("latencies %s of %d calls", got, len(r.Calls))
		}
		s := Summarise(r, o.Actions)
		if s.Sent != 4 || s.Unsent != 4 || s.All.Calls != 8 || s.Failed != 4 || s.Late != 3 || s.Latest != 3000 ||
			s.All.P50 != 3000 || s.All.Max != 5000 || s.Throughput != 0.5 || s.Failures[0] != (Failure{failureUnsent, 4, ""}) {
			t.Errorf("%+v", s)
		}
	})
}

func TestNothingIsSentAfterTheDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Run(t.Context(), Options{Actions: []string{"a"}, Arrivals: every(time.Second, 100), Duration: 3 * time.Second,
			InFlight: 10, Wait: time.Minute}, takes(time.Millisecond))
		if len(r.Calls) != 4 || len(sent(r)) != 4 {
			t.Errorf("%d calls, %d of them sent", len(r.Calls), len(sent(r)))
		}
	})
}

func TestInterruptedGivesWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		r := Run(ctx, Options{Actions: []string{"a"}, Arrivals: every(time.Second, 1000), Duration: time.Hour,
			InFlight: 10, Wait: time.Minute}, takes(2*time.Second))
		s := Summarise(r, []string{"a"})
		if !s.Interrupted || s.Sent != 5 || s.Ran != 3 || s.Failures[0].Kind != failureInterrupted || s.Failures[0].Count != 2 || r.Took != 4500*time.Millisecond {
			t.Errorf("%+v after %v", s, r.Took)
		}
	})
}

func TestOneAnswerIsWaitedForSoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Run(t.Context(), Options{Actions: []string{"a"}, Arrivals: every(time.Second, 1), Duration: time.Minute,
			InFlight: 1, Wait: 10 * time.Second}, takes(time.Hour))
		if r.Took != 10*time.Second || r.Calls[0].Failure != failureSlow || r.Calls[0].Ran {
			t.Errorf("%+v after %v", r.Calls, r.Took)
		}
	})
}

// Records come when they are written; those that never do are
// unknown.
func TestStartsAreFetchedUntilNoneComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		lock := make(chan struct{}, 1) // of asked
		s := system{start: func(id string) string {
			lock <- struct{}{}
			defer func() { <-lock }()
			asked[id]++
			if id == "soon" && asked[id] > 3 {
				return "warm"
			}
			return ""
		}}
		call := func(id, start string) Call { return Call{Answer: Answer{ID: id, Start: start, Ran: true}} }
		r := &Result{Calls: []Call{call("known", "gpu-warm"), call("soon", ""), call("never", ""), {Answer: Answer{Failure: "x"}}}}
		begin := time.Now()
		Starts(t.Context(), r, s, 10*time.Second, nil)
		var got []string
		for _, c := range r.Calls {
			got = append(got, c.Start)
		}
		if fmt.Sprint(got) != "[gpu-warm warm unknown ]" || asked["known"] != 0 || asked["soon"] != 4 {
			t.Errorf("%v, asked %v", got, asked)
		}
		if took := time.Since(begin); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

func TestMix(t *testing.T) {
	m := Mix{Actions: 4, Rate: 50, Zipf: 1, Count: 100_000, Seed: 7}
	counts, last := make([]float64, 4), time.Duration(0)
	for a := range m.Arrivals() {
		if a.At < last {
			t.Fatal("not in order of time")
		}
		last = a.At
		counts[a.Action]++
	}
	if rate := 100_000 / last.Seconds(); rate < 49 || rate > 51 {
		t.Errorf("%v calls a second, want 50", rate)
	}
	for i, n := range counts {
		if share, want := n/100_000, 12.0/25/float64(i+1); share < want*0.97 || share > want*1.03 {
			t.Errorf("action %d has a share of %v, want %v", i, share, want)
		}
	}
	var one, other []Arrival
	m.Count = 50
	for a := range m.Arrivals() {
		one = append(one, a)
	}
	for a := range m.Arrivals() {
		other = append(other, a)
	}
	if len(one) != 50 {
		t.Errorf("%d calls, want 50", len(one))
	}
	if !slices.Equal(one, other) {
		t.Error("the same mix gave other calls")
	}
	for _, bad := range []Mix{{Rate: 0}, {Rate: -1}, {Rate: 1e9}, {Rate: 1, Zipf: -1}, {Rate: 1, Zipf: 99}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestPercentilesAreExact(t *testing.T) {
	var g Group
	for i := 200; i > 0; i-- {
		g.add(Call{Latency: time.Duration(i) * time.Millisecond, Answer: Answer{Ran: true}})
	}
	g.settle()
	if p := percentile([]time.Duration{1, 2}, 99); p != 2 {
		t.Errorf("p99 of two values is the %d., want the 2.", p)
	}
	empty := Group{}
	if empty.settle(); empty.P50 != 0 {
		t.Errorf("p50 of no values is %v, want 0", empty.P50)
	}
	if g.P50 != 100 || g.P95 != 190 || g.P99 != 198 || g.Max != 200 {
		t.Errorf("%v %v %v %v", g.P50, g.P95, g.P99, g.Max)
	}
}

// What a person reads fits into 80 columns, whatever the names.
func TestPrintedWithin80Columns(t *testing.T) {
	name := "/a-long-namespace/package/" + strings.Repeat("é", 70)
	unsent := Call{Answer: Answer{Failure: failureUnsent}}
	r := &Result{Took: 100 * time.Hour, Calls: []Call{
		unsent, unsent, unsent,
		{Latency: 99 * time.Hour, Late: time.Hour, Answer: Answer{Ran: true, Start: "gpu-warm"}},
		{Action: 1, Answer: Answer{Failure: strings.Repeat("kind ", 40), Detail: strings.Repeat("detail ", 40)}},
	}}
	s := Summarise(r, []string{name, "other"})
	s.APIHost, s.Load = "http://"+strings.Repeat("h", 100), strings.Repeat("w ", 99)
	var b strings.Builder
	if err := s.Print(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"gpu-warm", "/a-long-names..ééé", "other", "FAILURE", "first: detail", "1 calls were sent late", "3 calls were not sent"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for ms, want := range map[float64]string{0: "0.00 ms", 9.994: "9.99 ms", 9.999: "10.0 ms", 99.99: "100 ms", 999.4: "999 ms", 999.9: "1.00 s", 9999: "10.0 s", 99960: "100 s"} {
		if got := short(ms); got != want {
			t.Errorf("%v ms is written %q, want %q", ms, got, want)
		}
	}
}
