package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
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

// TestTheLoadIsOpen: each call is sent at its time, even if the system takes longer than
// the interval between calls.
func TestTheLoadIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := 0
		r := Run(t.Context(), Options{Actions: []string{"a"}, Arrivals: every(time.Second, 10), Duration: time.Minute,
			InFlight: 100, Wait: time.Minute, Progress: func(p Progress) { most = max(most, p.Sent-p.Answered) }}, takes(5500*time.Millisecond))
		for _, c := range r.Calls {
			check.Equal(t, c.Late, 0, "%+v", c)
			check.Equal(t, c.Latency, 5500*time.Millisecond, "%+v", c)
		}
		check.Equal(t, len(r.Calls), 10)
		check.Equal(t, r.Took, 14500*time.Millisecond)
		check.AtLeast(t, most, 5, "calls under way")
	})
}

// TestAWaitForASlotIsLatency: the latency of a call includes its wait for a slot. Calls
// without a slot at the end are counted.
func TestAWaitForASlotIsLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Actions: []string{"a"}, Arrivals: every(time.Second, 8), Duration: 7500 * time.Millisecond, InFlight: 1, Wait: time.Minute}
		r := Run(t.Context(), o, takes(2*time.Second))
		check.Equal(t, fmt.Sprint(latencies(r)), "[2s 3s 4s 5s]")
		check.Equal(t, len(r.Calls), 8)
		s := Summarise(r, o.Actions)
		check.Equal(t, s.Sent, 4)
		check.Equal(t, s.Unsent, 4)
		check.Equal(t, s.All.Calls, 8)
		check.Equal(t, s.Failed, 4)
		check.Equal(t, s.Late, 3)
		check.Equal(t, s.Latest, 3000)
		check.Equal(t, s.All.P50, 3000)
		check.Equal(t, s.All.Max, 5000)
		check.Equal(t, s.Throughput, 0.5)
		check.Equal(t, s.Failures[0], Failure{failureUnsent, 4, ""})
	})
}

func TestNothingIsSentAfterTheDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Run(t.Context(), Options{Actions: []string{"a"}, Arrivals: every(time.Second, 100), Duration: 3 * time.Second,
			InFlight: 10, Wait: time.Minute}, takes(time.Millisecond))
		check.Equal(t, len(r.Calls), 4)
		check.Equal(t, len(sent(r)), 4)
	})
}

func TestInterruptedGivesWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		r := Run(ctx, Options{Actions: []string{"a"}, Arrivals: every(time.Second, 1000), Duration: time.Hour,
			InFlight: 10, Wait: time.Minute}, takes(2*time.Second))
		s := Summarise(r, []string{"a"})
		check.That(t, s.Interrupted)
		check.Equal(t, s.Sent, 5)
		check.Equal(t, s.Ran, 3)
		check.Equal(t, s.Failures[0].Kind, failureInterrupted)
		check.Equal(t, s.Failures[0].Count, 2)
		check.Equal(t, r.Took, 4500*time.Millisecond)
	})
}

func TestOneAnswerIsWaitedForSoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Run(t.Context(), Options{Actions: []string{"a"}, Arrivals: every(time.Second, 1), Duration: time.Minute,
			InFlight: 1, Wait: 10 * time.Second}, takes(time.Hour))
		check.Equal(t, r.Took, 10*time.Second)
		check.Equal(t, r.Calls[0].Failure, failureSlow)
		check.That(t, !r.Calls[0].Ran)
	})
}

// TestStartsAreFetchedUntilNoneComes: records are fetched when they are written. The
// start kind of a missing record is unknown.
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
		check.EqualSlices(t, got, []string{"gpu-warm", "warm", "unknown", ""})
		check.Equal(t, asked["known"], 0)
		check.Equal(t, asked["soon"], 4)
		check.AtLeast(t, time.Since(begin), 10*time.Second, "gave up")
		check.AtMost(t, time.Since(begin), 12*time.Second, "gave up")
	})
}

func TestMix(t *testing.T) {
	m := Mix{Actions: 4, Rate: 50, Zipf: 1, Count: 100_000, Seed: 7}
	counts, last := make([]float64, 4), time.Duration(0)
	for a := range m.Arrivals() {
		check.AtLeast(check.Must(t), a.At, last, "in order of time")
		last = a.At
		counts[a.Action]++
	}
	check.AtLeast(t, 100_000/last.Seconds(), 49, "calls a second")
	check.AtMost(t, 100_000/last.Seconds(), 51, "calls a second")
	for i, n := range counts {
		want := 12.0 / 25 / float64(i+1)
		check.AtLeast(t, n/100_000, want*0.97, "share of action %d", i)
		check.AtMost(t, n/100_000, want*1.03, "share of action %d", i)
	}
	m.Count = 50
	one := slices.Collect(m.Arrivals())
	check.Equal(t, len(one), 50)
	check.EqualSlices(t, slices.Collect(m.Arrivals()), one, "the same mix")
	for _, bad := range []Mix{{Rate: 0}, {Rate: -1}, {Rate: 1e9}, {Rate: 1, Zipf: -1}, {Rate: 1, Zipf: 99}} {
		check.That(t, bad.Validate() != nil, "%+v was taken", bad)
	}
}

func TestPercentilesAreExact(t *testing.T) {
	var g Group
	for i := 200; i > 0; i-- {
		g.add(Call{Latency: time.Duration(i) * time.Millisecond, Answer: Answer{Ran: true}})
	}
	g.settle()
	check.Equal(t, g.P50, 100)
	check.Equal(t, g.P95, 190)
	check.Equal(t, g.P99, 198)
	check.Equal(t, g.Max, 200)
	check.Equal(t, percentile([]time.Duration{1, 2}, 99), 2)
	empty := Group{}
	empty.settle()
	check.Equal(t, empty.P50, 0)
}

// TestPrintedWithin80Columns: the printed report fits into 80 columns even with long
// names.
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
	check.NoError(t, s.Print(&b))
	for line := range strings.SplitSeq(b.String(), "\n") {
		check.AtMost(t, len([]rune(line)), 80, "%s", line)
	}
	for _, want := range []string{"gpu-warm", "/a-long-names..ééé", "other", "FAILURE", "first: detail", "1 calls were sent late", "3 calls were not sent"} {
		check.Contains(t, b.String(), want)
	}
	for ms, want := range map[float64]string{0: "0.00 ms", 9.994: "9.99 ms", 9.999: "10.0 ms", 99.99: "100 ms", 999.4: "999 ms", 999.9: "1.00 s", 9999: "10.0 s", 99960: "100 s"} {
		check.Equal(t, short(ms), want, "%v ms", ms)
	}
}
