package gpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDeviceNameIsSimulated(t *testing.T) {
	d := Device{Index: 1, Name: "V100", MemoryBytes: 1, Simulated: true}
	if !strings.Contains(d.String(), "simulated") {
		t.Errorf("%q hides that the device is simulated", d)
	}
	if err := (Device{Index: 0}).Validate(); err == nil {
		t.Error("a device without memory is valid")
	}
	if got := (Device{Sharing: MIGSlice}).MaxTokens(3); got != 1 {
		t.Errorf("a MIG slice takes %d runs, want 1", got)
	}
}

func TestInterference(t *testing.T) {
	s := DefaultInterference()
	for _, c := range []struct {
		k    int
		want float64
	}{{0, 1}, {1, 1}, {2, 1.3}, {4, 3}, {5, 3.9}} {
		if got := s.Slowdown(c.k); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("s(%d) = %v, want %v", c.k, got, c.want)
		}
	}
	if s.Throughput(2) <= s.Throughput(3) {
		t.Error("the default makes three at once better than two")
	}
	for _, bad := range []Interference{{}, {0.5}, {1, 0.9}, {math.NaN()}, {1, math.Inf(1)}} {
		if bad.Validate() == nil {
			t.Errorf("%v is valid", bad)
		}
	}
}

func TestLink(t *testing.T) {
	l := Link{BytesPerSecond: 1e9, Overlap: 0.25}
	if got := (Link{BytesPerSecond: 1}).Transfer(1 << 62); got != math.MaxInt64 {
		t.Errorf("a transfer beyond what a duration holds takes %s", got)
	}
	if got := l.Transfer(5e8); got != 500*time.Millisecond {
		t.Errorf("half a gigabyte at 1 GB/s takes %v", got)
	}
	if got := l.Exposed(time.Second); got != 750*time.Millisecond {
		t.Errorf("a quarter overlapped leaves %v", got)
	}
	for _, bad := range []Link{{}, {BytesPerSecond: math.NaN()}, {BytesPerSecond: 1, Overlap: 1.1}} {
		if bad.Validate() == nil {
			t.Errorf("%v is valid", bad)
		}
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
		rule Rule
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
		if !slices.Equal(got, c.want) {
			t.Errorf("%v removes %v, want %v", c.rule, got, c.want)
		}
	}
	for r := LRU; r <= DemandAware; r++ {
		if back, err := ParseRule(r.String()); back != r || err != nil {
			t.Errorf("%v parses to %v, %v", r, back, err)
		}
	}
}

func TestDemandFollowsRates(t *testing.T) {
	c := NewClock(0, time.Minute)
	var often, rare, never Demand
	now := time.Duration(0)
	for range 600 {
		now += 500 * time.Millisecond
		c.Arrived(now, &often)
		if now%(10*time.Second) == 0 {
			c.Arrived(now, &rare)
		}
	}
	if got := c.Rate(now, &often); math.Abs(got-2) > 0.1 {
		t.Errorf("rate %v, want 2 per second", got)
	}
	if got := c.Rate(now, &rare); math.Abs(got-0.1) > 0.02 {
		t.Errorf("rate %v, want 0.1 per second", got)
	}
	if got := c.Rate(now+10*time.Minute, &often); got > 0.01 {
		t.Errorf("rate %v after ten minutes of silence", got)
	}
	if got := c.Rate(now, &never); got != 0 {
		t.Errorf("rate %v of a flow that was never asked for", got)
	}
}

func TestColdStart(t *testing.T) {
	var old ColdStart
	if got := old.Expected(); got != 1 {
		t.Errorf("%v s for a cold start that was never seen, want 1", got)
	}
	for range 100 {
		old.Add(3 * time.Second)
	}
	newer := old.Prior()
	if got := newer.Expected(); got != 3 {
		t.Errorf("%v s expected of a newer revision, want 3", got)
	}
	newer.Add(9 * time.Second)
	if got := newer.Expected(); got != 9 {
		t.Errorf("%v s after the newer revision's first, want 9", got)
	}
}

func TestTokensFixed(t *testing.T) {
	tok, err := NewTokens(DefaultTokens())
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		tok.Sample(0, 1)
	}
	if tok.D() != 2 {
		t.Errorf("a fixed D moved to %d", tok.D())
	}
}

func dynamicTokens(t *testing.T, most int) *Tokens {
	t.Helper()
	cfg := DefaultTokens()
	cfg.Dynamic, cfg.Max = true, most
	tok, err := NewTokens(cfg)
	if err != nil {
		t.Fatal(err)
	}
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
	if tok.D() != 1 {
		t.Errorf("D = %d on a saturated device, want 1", tok.D())
	}
	feed(0.2, 100)
	if tok.D() != 4 {
		t.Errorf("D = %d on an idle device, want 4", tok.D())
	}
	tok.Sample(now, math.NaN())
	if u := tok.Utilization(); math.IsNaN(u) {
		t.Error("a reading that is no number entered the average")
	}
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
			if d := tok.D(); d < 1 || d > tok.cfg.Max {
				t.Fatalf("D = %d of at most %d", d, tok.cfg.Max)
			}
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
	if tok.D() != 2 {
		t.Errorf("D = %d with s = %v, want 2: 3/2.1 is less than 2/1.3", tok.D(), s)
	}
	if got, ok := tok.Slowdown(3); !ok || math.Abs(got-2.1) > 0.01 {
		t.Errorf("learned s(3) = %v, %v", got, ok)
	}
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
	if tok.D() != 2 {
		t.Errorf("D = %d, want 2: two at once were seen to do 2/1.3 of the work of one", tok.D())
	}
}

func TestConfigurationErrorsNameTheValue(t *testing.T) {
	for _, err := range []error{
		TokensConfig{Max: 0}.Validate(),
		TokensConfig{Max: 2, Dynamic: true, Threshold: math.NaN()}.Validate(),
		PoolConfig{Size: -1}.Validate(),
		PoolConfig{Rule: 99}.Validate(),
	} {
		if err == nil {
			t.Error("a bad configuration is valid")
		}
	}
	for _, cfg := range []LedgerConfig{{}, {Capacity: 1, Headroom: 2}, {Capacity: 1, AckTimeout: -1}} {
		if _, err := NewLedger(cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

func BenchmarkLedgerReserveRelease(b *testing.B) {
	l, _ := NewLedger(LedgerConfig{Capacity: 1 << 40})
	for i := range 64 {
		id := Container(i + 1)
		l.Reserve(0, id, Need{Bytes: 1 << 20, Context: 1 << 10})
		l.Release(0, id)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id := Container(i%64 + 1)
		l.Reserve(time.Duration(i), id, Need{Bytes: 1 << 20})
		l.Release(time.Duration(i), id)
	}
}
