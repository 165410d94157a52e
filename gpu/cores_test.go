package gpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestDeviceNameIsSimulated(t *testing.T) {
	d := Device{Index: 1, Name: "V100", MemoryBytes: 1, Simulated: true}
	check.Contains(t, d.String(), "simulated", "hides that the device is simulated")
	check.That(t, (Device{Index: 0}).Validate() != nil, "a device without memory is valid")
	check.Equal(t, (Device{Sharing: MIGSlice}).MaxTokens(3), 1, "a MIG slice takes")
}

func TestInterference(t *testing.T) {
	s := DefaultInterference()
	for _, c := range []struct {
		k    int
		want float64
	}{{0, 1}, {1, 1}, {2, 1.3}, {4, 3}, {5, 3.9}} {
		got := s.Slowdown(c.k)
		check.AtMost(t, math.Abs(got-c.want), 1e-9, "s(%d) = %v, want %v", c.k, got, c.want)
	}
	check.Greater(t, s.Throughput(2), s.Throughput(3), "the default makes three at once better than two")
	for _, bad := range []Interference{{}, {0.5}, {1, 0.9}, {math.NaN()}, {1, math.Inf(1)}} {
		check.That(t, bad.Validate() != nil, "%v is valid", bad)
	}
}

func TestLink(t *testing.T) {
	l := TransferModel{BytesPerSecond: 1e9, Overlap: 0.25}
	check.Equal(t, (TransferModel{BytesPerSecond: 1}).Transfer(1<<62), math.MaxInt64, "a transfer longer than a duration can hold takes")
	check.Equal(t, l.Transfer(5e8), 500*time.Millisecond, "half a gigabyte at 1 GB/s takes")
	check.Equal(t, l.Exposed(time.Second), 750*time.Millisecond, "a quarter overlapped leaves")
	for _, bad := range []TransferModel{{}, {BytesPerSecond: math.NaN()}, {BytesPerSecond: 1, Overlap: 1.1}} {
		check.That(t, bad.Validate() != nil, "%v is valid", bad)
	}
}

func TestRuleOrders(t *testing.T) {
	const backlogged, throttled, inactive, rare, second = Container(1), Container(2), Container(3), Container(4), Container(5)
	candidates := []Candidate{
		{Container: backlogged, State: Backlogged, LastUsed: 1, Siblings: 1, Demand: 1},
		{Container: throttled, State: Throttled, LastUsed: 2, Siblings: 1, Demand: 1},
		{Container: inactive, State: Inactive, LastUsed: 5, Siblings: 1, Demand: 81},
		{Container: rare, State: Active, LastUsed: 9, Siblings: 1, Demand: 0.1},
		{Container: second, State: Active, LastUsed: 8, Siblings: 4, Demand: 1},
	}
	for _, c := range []struct {
		rule RetentionPolicy
		want []Container
	}{
		{LRU, []Container{backlogged, throttled, inactive, second, rare}},
		{FlowLRU, []Container{inactive, throttled, backlogged, second, rare}},
		{ProtectLRU, []Container{inactive, second, rare, backlogged, throttled}},
		{DemandAware, []Container{second, rare, inactive, backlogged, throttled}},
	} {
		left := slices.Clone(candidates)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		slices.SortFunc(left, func(a, b Candidate) int {
			if c.rule.Before(&a, &b) {
				return -1
			}
			return 1
		})
		var got []Container
		for _, of := range left {
			got = append(got, of.Container)
		}
		check.EqualSlices(t, got, c.want, "%v removes", c.rule)
	}
	for r := LRU; r <= DemandAware; r++ {
		back, err := ParseRetentionPolicy(r.String())
		check.Equal(t, back, r)
		check.NoError(t, err)
	}
}

func TestDemandFollowsRates(t *testing.T) {
	var often, rare, never Demand
	now := time.Duration(0)
	for range 600 {
		now += 500 * time.Millisecond
		often.Arrived(now)
		if now%(10*time.Second) == 0 {
			rare.Arrived(now)
		}
	}
	check.AtMost(t, math.Abs(often.Rate(now)-2), 0.1)
	check.AtMost(t, math.Abs(rare.Rate(now)-0.1), 0.02)
	check.AtMost(t, often.Rate(now+100*time.Minute), 0.01)
	check.Equal(t, never.Rate(now), 0)
}

func TestColdStart(t *testing.T) {
	var old ColdStart
	check.Equal(t, old.Expected(), 1, "s for a cold start that was never seen")
	for range 100 {
		old.Add(3 * time.Second)
	}
	newer := old.Prior()
	check.Equal(t, newer.Expected(), 3, "s expected of a newer revision")
	newer.Add(9 * time.Second)
	check.Equal(t, newer.Expected(), 9, "s after the newer revision's first")
}

func TestTokensFixed(t *testing.T) {
	tok, err := NewTokens(DefaultTokens())
	check.NoError(t, err)
	for range 100 {
		tok.Sample(0, 1)
	}
	check.Equal(t, tok.D(), 2, "a fixed D moved")
}

func dynamicTokens(t *testing.T, most int) *Tokens {
	t.Helper()
	cfg := DefaultTokens()
	cfg.Dynamic, cfg.Max = true, most
	tok, err := NewTokens(cfg)
	check.NoError(t, err)
	return tok
}

func TestTokensFollowUtilization(t *testing.T) {
	tok := dynamicTokens(t, 4)
	now := time.Duration(0)
	feed := func(u float64, n int) {
		for range n {
			now += 200 * time.Millisecond
			tok.Sample(now, u)
		}
	}
	feed(1, 100)
	check.Equal(t, tok.D(), 1)
	feed(0.2, 100)
	check.Equal(t, tok.D(), 4)
	tok.Sample(now, math.NaN())
	check.That(t, !math.IsNaN(tok.Utilization()), "a reading that is no number entered the average")
}

func TestTokensStayBetweenOneAndMax(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		tok := dynamicTokens(t, 1+r.IntN(6))
		now := time.Duration(0)
		for range 1000 {
			now += time.Duration(r.IntN(400)) * time.Millisecond
			tok.Sample(now, r.Float64()*1.5-0.2)
			tok.Learn("f", r.IntN(9)-1, time.Duration(r.IntN(4000))*time.Millisecond)
			d := tok.D()
			check.AtLeast(check.Must(t), d, 1)
			check.AtMost(check.Must(t), d, tok.cfg.Max)
		}
	}
}

func TestTokensLearnThatMoreAtOnceIsSlower(t *testing.T) {
	tok := dynamicTokens(t, 3)
	s := DefaultInterference()
	for range 20 {
		for k := 1; k <= 3; k++ {
			tok.Learn("f", k, time.Duration(s.Slowdown(k)*float64(time.Second)))
		}
	}
	check.Equal(t, tok.D(), 2, "D = %d with s = %v, want 2: 3/2.1 is less than 2/1.3", tok.D(), s)
	got, ok := tok.slowdown(3)
	check.That(check.Must(t), ok, "learned s(3) = %v, %v", got, ok)
	check.AtMost(t, math.Abs(got-2.1), 0.01)
}

func TestTokensKeepWhatIsProvenOnAFullDevice(t *testing.T) {
	tok := dynamicTokens(t, 4)
	s := DefaultInterference()
	for range 20 {
		for k := 1; k <= 2; k++ {
			tok.Learn("f", k, time.Duration(s.Slowdown(k)*float64(time.Second)))
		}
	}
	for now := time.Duration(0); now < time.Minute; now += 200 * time.Millisecond {
		tok.Sample(now, 1)
	}
	check.Equal(t, tok.D(), 2)
}

func TestConfigurationErrorsNameTheValue(t *testing.T) {
	for _, err := range []error{
		TokensConfig{Max: 0}.Validate(),
		TokensConfig{Max: 2, Dynamic: true, Threshold: math.NaN()}.Validate(),
		PoolConfig{Size: -1}.Validate(),
		PoolConfig{Rule: 99}.Validate(),
	} {
		check.That(t, err != nil, "a bad configuration is valid")
	}
	for _, cfg := range []LedgerConfig{{}, {Capacity: 1, Headroom: 2}, {Capacity: 1, AckTimeout: -1}} {
		_, err := NewLedger(cfg)
		check.That(t, err != nil, "%+v is accepted", cfg)
	}
}

func BenchmarkLedgerReserveRelease(b *testing.B) {
	l, _ := NewLedger(LedgerConfig{Capacity: 1 << 40})
	for i := range 64 {
		id := Container(i + 1)
		l.Reserve(0, id, MemoryRequest{Bytes: 1 << 20, Context: 1 << 10})
		l.Release(0, id)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := Container(i%64 + 1)
		l.Reserve(time.Duration(i), id, MemoryRequest{Bytes: 1 << 20})
		l.Release(time.Duration(i), id)
	}
}

// TestSlowestMove: the memory of a whole H200 is waited for at the slowest measured speed, 1.7
// GB/s.
func TestSlowestMove(t *testing.T) {
	const memory, measured = int64(141e9), int64(1.7e9)
	check.AtLeast(t, SlowestMove(memory), time.Duration(memory/measured)*time.Second)
	check.Equal(t, SlowestMove(0), 0)
}
