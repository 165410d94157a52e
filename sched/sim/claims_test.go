package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden is a small fixed part of the published numbers.
var golden = []string{"copies", "gap-bound", "load-70", "fcfs-d", "t0", "pool-fcfs-4", "light-fcfs-swap", "plus-mean", "plus-p99", "grid-32-0.95"}

// TestGoldenClaims compares a few of the claims with their exact numbers: they are a
// function of code and seed alone, so a change of theirs is a change of a
// rule. Two seeds allow no verdict. Run with -rewrite and read the diff.
func TestGoldenClaims(t *testing.T) {
	onlyCores(t)
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the golden numbers are of amd64: other processors may fuse floating-point operations")
	}
	found, err := Claims(context.Background(), golden, 2, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, f := range found {
		line, err := json.Marshal(struct {
			Name  string
			Value Spread
		}{f.Name, f.Value})
		if err != nil {
			t.Fatal(err)
		}
		got.Write(append(line, '\n'))
	}
	file := filepath.Join("testdata", "claims.golden")
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	compareLines(t, got.String(), string(want))
}

func compareLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, a, b)
		}
	}
}

func TestClaimsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	var all []claim
	for _, s := range chosen(nil) {
		if s.title == "" {
			t.Error("a section has no title")
		}
		all = append(all, s.claims...)
	}
	for _, k := range all {
		check.That(t, k.name != "", "claim %q", k.text)
		check.That(t, k.text != "", "claim %s", k.name)
		check.Greater(t, len(k.runs), 0, "claim %s", k.name)
		check.That(t, k.value != nil, "claim %s", k.name)
		check.That(t, k.judge.judge != nil, "claim %s", k.name)
		check.That(t, !seen[k.name], "claim %s: the only one of its name", k.name)
		seen[k.name] = true
		check.That(t, k.why != "" || strings.HasPrefix(k.name, "grid"), "claim %s", k.name)
		for _, run := range k.runs {
			if _, err := parse(run); err != nil {
				t.Errorf("claim %s: %v", k.name, err)
			}
		}
	}
	_, err := Claims(context.Background(), []string{"no such"}, 1, 1, nil)
	check.ErrorContains(t, err, "--only", "an unknown claim")
	_, err = Claims(context.Background(), nil, 0, 1, nil)
	check.ErrorContains(t, err, "--seeds", "no seeds")
}

func TestRunsAreWrittenAsFlags(t *testing.T) {
	e, err := parse("azure fcfs tokens=1 swap-each-run footprint=1536MB interference=1,1.5 series")
	check.NoError(t, err)
	check.Equal(t, e.Params.Policy, "fcfs")
	check.Equal(t, e.Params.Tokens.Max, 1)
	check.That(t, e.Params.SwapEachRun)
	check.That(t, e.Params.Series)
	check.Equal(t, e.Params.Interference[1], 1.5)
	check.Equal(t, e.Params.Pool.Size, 32)
	check.Equal(t, e.Spec.Kind, "azure")
	check.Equal(t, e.Spec.Footprint, 1536*mib)
	check.Equal(t, e.Spec.Duration, 30*time.Minute)
	for run, want := range map[string]string{
		"zipf fifo": "--policy", "zipf fcfs colour=red": "--colour", "zipf fcfs tokens=x": "tokens", "zipf fcfs tokens=0": "--tokens",
	} {
		_, err := parse(run)
		check.ErrorContains(t, err, want, "%s", run)
	}
}

// TestEqualRunsAreMadeOnce writes one run in two ways.
func TestEqualRunsAreMadeOnce(t *testing.T) {
	made := 0
	results, err := runTexts(context.Background(), runs{"copies fcfs duration=1m", "copies fcfs duration=60s tokens=2", "copies fcfs duration=1m"}, 2, 1,
		func(_, total int) { made = total })
	check.NoError(t, err)
	check.Equal(t, made, 2)
	check.Equal(check.Must(t), len(results), 2)
	check.Equal(t, results["copies fcfs duration=1m"][1], results["copies fcfs duration=60s tokens=2"][1])
}

func TestFindingsAsMarkdown(t *testing.T) {
	f := Finding{Section: "S", Name: "n", Claim: "c", Paper: "p", Unit: "x", Value: Spread{1.234, 1, 22.22, 3}, Interval: &Interval{1.1, 2.3}, Verdict: Not, Why: "w"}
	cell := Finding{Section: "S", Name: gridName(16, 0.7, 2), Value: Spread{Median: 0.37}, Verdict: Met}
	best := cell
	best.Name, best.Value.Median = gridName(8, 0.5, 1), 0.06
	fine := f
	fine.Claim, fine.Verdict = "d", Reproduced
	got := ClaimsMarkdown([]Finding{f, fine, cell, best})
	for _, want := range []string{"| S | 1 reproduced, 1 not, 2 met |\n", "| c | p | 1.23x [1.00, 22.2] | not | w |\n"} {
		check.Contains(t, got, want)
	}
	check.Lacks(t, got, "| d |", "a finding that bears its claim out")
	if want := "met in 2 cells, missed in 0, unclear in 0; medians 0.06 to 0.37.\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q does not end with %q", got, want)
	}
}

func TestFindingsAsTable(t *testing.T) {
	f := Finding{Section: "S", Name: "n", Claim: "c, d", Paper: "p", Unit: " s", Value: Spread{1.234, 1, 22.22, 3}, Interval: &Interval{1.1, 2.3}, Largest: 30, Verdict: Not, Why: "w"}
	few := f
	few.Interval = nil
	var got strings.Builder
	if err := ClaimsTable([]Finding{f, few}).CSV(&got); err != nil {
		t.Fatal(err)
	}
	want := "section,name,claim,paper,unit,median,q10,q90,low,high,largest,verdict,why\n" +
		"S,n,\"c, d\",p,s,1.23,1.00,22.2,1.10,2.30,30.0,not,w\n" +
		"S,n,\"c, d\",p,s,1.23,1.00,22.2,,,30.0,not,w\n"
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestInsertReplacesTheTextBetweenTwoLines(t *testing.T) {
	const begin, end = "<!-- begin -->", "<!-- end -->"
	doc := "a\n" + begin + "\nold\n" + end + "\nb\n"
	once, err := Insert(doc, begin, end, "new\n")
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, once, "a\n"+begin+"\n\nnew\n\n"+end+"\nb\n")
	twice, err := Insert(once, begin, end, "new")
	check.NoError(t, err)
	check.Equal(t, twice, once)
	_, err = Insert("nothing", begin, end, "new")
	check.That(t, err != nil, "a document without the lines")
}

func TestCompareKeepsTheOrderOfEntries(t *testing.T) {
	t.Parallel()
	s := DefaultSpec()
	s.Duration = 2 * time.Minute
	entries, err := Entries(PolicyNames(), Options{}, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	figures, err := Compare(context.Background(), entries, 1, 3, 2, func(done, total int) { calls++ })
	if err != nil {
		t.Fatal(err)
	}
	check.Equal(t, calls, 3*len(entries), "reports of progress")
	for i, f := range figures {
		check.Equal(t, f.Policy, PolicyNames()[i], "figure %d", i)
		check.Equal(t, f.Mean.N, 3, "%s", f.Policy)
		check.Greater(t, f.Mean.Median, 0, "%s", f.Policy)
	}
	check.Equal(t, figures[0].Ratio.Median, 1, "the first policy's ratio to itself")
}

func TestCompareStopsWhenCancelled(t *testing.T) {
	entries, err := Entries([]string{mqfq}, Options{}, DefaultSpec(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Compare(ctx, entries, 1, 5, 2, nil); err == nil {
		t.Error("a cancelled comparison gave figures")
	}
}

func TestSweepSetsItsParameter(t *testing.T) {
	for _, swept := range SweptParameters() {
		name := swept.Name
		entries, err := Sweep(name, "", []string{mqfq}, Options{}, DefaultSpec(), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		check.AtLeast(check.Must(t), len(entries), 4, "%s", name)
		check.That(t, strings.HasPrefix(entries[0].Setting, name+"="), "%s: the first setting is %q", name, entries[0].Setting)
	}
	e, err := Sweep("overrun", "3s", []string{mqfq}, Options{}, DefaultSpec(), nil)
	check.NoError(t, err)
	check.Equal(t, e[0].Params.Sched.Overrun, 3*time.Second)
	for values, want := range map[string]string{"x": "--values", "-1s": "--overrun"} {
		entries, err := Sweep("overrun", values, []string{mqfq}, Options{}, DefaultSpec(), nil)
		if err == nil {
			_, err = Compare(context.Background(), entries, 1, 1, 1, nil)
		}
		check.ErrorContains(t, err, want, "overrun %q", values)
	}
	_, err = Sweep("colour", "", []string{mqfq}, Options{}, DefaultSpec(), nil)
	check.ErrorContains(t, err, "--over", "an unknown parameter")
}

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"16GB": 16 * gib, "1.5 GiB": 1536 * mib, "400mb": 400 * mib, "7": 7, "0B": 0, "2K": 2048, "1TB": 1 << 40,
	} {
		var b Bytes
		check.NoError(t, b.UnmarshalText([]byte(text)), "%q", text)
		check.Equal(t, int64(b), int64(want), "%q", text)
		var back Bytes
		check.NoError(t, back.UnmarshalText([]byte(b.String())), "%d, written %s", int64(b), b)
		check.Equal(t, int64(back), int64(b), "written %s", b)
	}
	for want, b := range map[string]Bytes{"1.5GB": 1536 * mib, "7B": 7} {
		check.Equal(t, b.String(), want, "%d bytes", int64(b))
	}
	for _, text := range []string{"", "GB", "-1GB", "NaN", "1e30GB", "5 apples", "1XB"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: accepted as %d", text, b)
		}
	}
}

func TestOptionsNameTheFlag(t *testing.T) {
	word, none, nan := "fifo", 0, -1.0
	for flag, o := range map[string]Options{
		"--retention":      {Retention: &word},
		"--pool":           {Pool: &none},
		"--swap-bandwidth": {SwapBandwidth: &nan},
	} {
		_, err := o.Apply(mqfq)
		check.ErrorContains(t, err, flag)
	}
}
