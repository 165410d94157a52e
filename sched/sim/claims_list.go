package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// runs is the input of a claim, in the syntax of parse.
type runs = []string

// The prefix of most runs, and flags that several runs share.
const (
	medium   = "azure mqfq-sticky" // the paper's trace 4 under its policy
	zipfMQFQ = "zipf mqfq-sticky"
	// evicting moves the memory of flows out that are inactive or throttled, as the
	// paper has it. Only so does the TTL make a difference.
	evicting = " retention=flow-lru headroom=15GB"
	alpha2   = " ttl-alpha=2 ttl-min=0s"
	noTTL    = " ttl-min=0s ttl-max=0s"
	shortTTL = " ttl-min=100ms ttl-max=100ms"
	// light gives every function the one memory size that the paper prints. More of a sample's
	// utilization is then warm work, since less time goes into swapping.
	light = " footprint=1536MB warm-share=0.75"
	// slow has all memory fit on the device behind a slow link.
	slow = medium + evicting + " footprint=500MB warm-share=0.75"
	// rareServer has memory and containers for a crowd of functions.
	rareServer = " gpu-memory=80GB pool=128 load=1.1 duration=10m"
)

// sections are all claims in the order of the paper, then ours.
var sections = []section{
	{"Fairness (four copies of a function; 24 functions, Zipf)", []claim{
		{"copies-mqfq", "MQFQ serves four backlogged copies equally: most over least service", "1 (equal)", "x",
			runs{"copies mqfq-sticky duration=10m drain=0s series"}, mostOverLeast, atMost(1.1, 1.5),
			"the difference is in flight at a window's edges"},
		{"copies-fcfs", "under FCFS the popular copies get more: most over least service", "popular dominate", "x",
			runs{"copies fcfs duration=10m drain=0s series"}, mostOverLeast, atLeast(1.5),
			"FCFS serves in proportion to arrivals"},
		{"gap-mean", "mean gap between the most and the least served function, per 30 s", "< 50 s", " s",
			runs{zipfMQFQ + " load=0.95"}, func(r []*Result) float64 { return r[0].GapAll.Mean }, atMost(50, 60),
			"a weak test: two runs at once give one function 60 s in 30 s at most; functions without work count, as in the paper"},
		{"gap-bound", "largest gap between backlogged functions over the derived bound, all loads", "within the bound", " of it",
			runs{zipfMQFQ + " load=0.5", zipfMQFQ + " load=0.7", zipfMQFQ + " load=0.85", zipfMQFQ + " load=0.95"}, largestGap, inEveryRun(atMost(1, 1)),
			"2T + 2D(ci/wi + cj/wj) holds in every run; the printed bound is 0 at D=1"},
	}},
	{"Latency against load (Zipf)", append(loadClaims(), claim{
		"load-large", "the same with large functions only, at load 0.95", "1.15x", "x",
		runs{"zipf fcfs load=0.95 large", zipfMQFQ + " load=0.95 large"}, meanRatio, inRange(1.05, 1.35),
		"long runs dwarf a change of function; large is 1.9 s warm or more, as Table 1 has none above 5 s",
	})},
	{"Policies on the medium trace", []claim{
		{"mqfq-d1", "MQFQ, mean latency at D=1", "11.8 s", " s", runs{medium + " tokens=1"}, func(r []*Result) float64 { return mean(r[0]) }, inRange(6, 24),
			"our footprints and warm share were chosen with this figure and the next in view"},
		{"fcfs-d1", "FCFS over MQFQ at D=1", "4.4x", "x", runs{"azure fcfs tokens=1", medium + " tokens=1"}, meanRatio, inRange(2.2, 8.8),
			"FCFS changes function, and swaps, at nearly every run"},
		{"fcfs-d2", "FCFS over MQFQ at D=2", "2-5x", "x", runs{"azure fcfs", medium}, meanRatio, inRange(2, 10),
			"concurrent runs of one function start cold, too"},
		{"paella-d1", "Paella over MQFQ at D=1", "8-20x", "x", runs{"azure paella tokens=1", medium + " tokens=1"}, meanRatio, inRange(4, 40),
			"shortest first alternates between functions and evicts the memory that it needs next"},
		{"paella-d2", "Paella over MQFQ at D=2", "8-20x", "x", runs{"azure paella", medium}, meanRatio, inRange(4, 40), "shortest first alternates between functions and evicts the memory that it needs next"},
		{"batch-d1", "Batch lies between MQFQ (0) and FCFS (1) at D=1, on a log scale", "between", "",
			runs{medium + " tokens=1", "azure batch tokens=1", "azure fcfs tokens=1"}, onLogScale, between(),
			"whole queues change function least, which wins where swaps dominate"},
		{"batch-d2", "the same at D=2", "between", "", runs{medium, "azure batch", "azure fcfs"}, onLogScale, between(),
			"a batch runs beside itself and starts cold containers of its own function"},
		{"naive", "no pool and no memory management over MQFQ", "300x", "x", runs{"azure naive", medium}, meanRatio, inRange(150, 600),
			"the queue grows without end, and the ratio with the length of the trace"},
	}},
	{"Concurrency D, under three models of interference", concurrencyClaims()},
	{"Per function, medium trace", []claim{
		{"between", "variance between functions' mean latencies, FCFS over MQFQ", "3x", "x", runs{"azure fcfs", medium},
			func(r []*Result) float64 { return ratio(r[0].FunctionVariance, r[1].FunctionVariance) }, inRange(1.5, 6),
			"under FCFS a burst slows all activations that arrive beside it"},
		{"within-fcfs", "variance within a function, FCFS over MQFQ", "3-4x", "x", runs{"azure fcfs", medium}, withinVariance, atLeast(2),
			"under FCFS a burst slows all activations that arrive beside it"},
		{"within-batch", "variance within a function, Batch over MQFQ", "3-4x", "x", runs{"azure batch", medium}, withinVariance, atLeast(2),
			"a batch holds the device for as long as its queue is"},
	}},
	{"Overrun T and service times, medium trace", []claim{
		{"t0", "T=0 over T=10", "2.5x", "x", runs{medium + " overrun=0s", medium + " overrun=10s"}, meanRatio, inRange(1.25, 5),
			"without a window nearly every run changes function, and with our footprints swaps; see the light footprints below"},
		{"t-flat", "largest over smallest for T of 5 to 50", "about 1x", "x",
			runs{medium + " overrun=5s", medium + " overrun=10s", medium + " overrun=20s", medium + " overrun=50s"}, mostOverLeastMean, atMost(1.5, 2.5),
			"larger windows help a little more, at the price of fairness"},
		{"tau", "charging every run 1.0 over charging its function's mean", "up to 2.7x", "x", runs{medium + " fixed-charge=1s", medium + " overrun=10s"}, meanRatio, inRange(1.2, 4),
			"a flat charge throttles the short and frequent and lets the long run on"},
	}},
	{"Keep-alive TTL, medium trace, swapped out as soon as inactive", []claim{
		{"ttl-none", "alpha=0 over alpha=2", "1.5x", "x", runs{medium + evicting + noTTL, medium + evicting + alpha2}, meanRatio, inRange(1.25, 2.25),
			"recency keeps the same memory as a TTL; a TTL also keeps memory whose next call is far"},
		{"ttl-short", "one TTL of 0.1 s over none", "0.75x", "x", runs{medium + evicting + shortTTL, medium + evicting + noTTL}, meanRatio, inRange(0.6, 0.9),
			"few gaps are that short, and backlogged flows need no TTL"},
		{"ttl-global", "one global inter-arrival time over each function's own", "1.15x", "x", runs{medium + evicting + alpha2 + " ttl-global", medium + evicting + alpha2}, meanRatio, inRange(1.05, 1.35),
			"it shortens the TTL of rare flows, which are not worth keeping"},
	}},
	{"Cold starts against pool size, medium trace", append(poolClaims(),
		claim{"pool-fcfs-4", "FCFS, cold starts with 4 containers", "50%", "%", runs{"azure fcfs pool=4"}, coldPercent,
			band(35, 65, 12, 100),
			"the next run is mostly of none of the last four functions"},
		claim{"pool-parity", "FCFS less MQFQ, points of cold starts with 32 containers", "parity", "", runs{"azure fcfs pool=32", medium + " pool=32"},
			func(r []*Result) float64 { return coldPercent(r) - coldPercent(r[1:]) }, atMost(2, 5),
			"every function keeps its container"})},
	{"Choice inside the window", []claim{
		{"preferential", "least virtual time over longest queue, medium trace", "1.01-1.30x", "x", runs{"azure mqfq", medium}, meanRatio, inRange(1.01, 1.4),
			"it changes function at every run, and with our footprints swaps; see the light footprints below"},
		{"preferential-zipf", "the same, Zipf", "1.01-1.30x", "x", runs{"zipf mqfq", zipfMQFQ}, meanRatio, inRange(1.01, 1.4), "it changes function at every run, and with our footprints swaps; see the light footprints below"},
		{"eevdf", "EEVDF over MQFQ, medium trace", "1.67x", "x", runs{"azure eevdf", medium}, meanRatio, inRange(1.2, 2.5),
			"it counts cold starts, but serves nearly in order of arrival"},
		{"eevdf-zipf", "the same, Zipf", "1.67x", "x", runs{"zipf eevdf", zipfMQFQ}, meanRatio, inRange(1.2, 2.5), "it counts cold starts, but serves nearly in order of arrival"},
	}},
	{"Two GPUs, high-load trace (6)", []claim{
		{"gpus-d1", "one GPU over two, D=1", "2.3x", "x", oneOverTwo(1), meanRatio, inRange(1.15, 4.6),
			"one device at D=1 is past saturation, where ratios have no limit"},
		{"gpus-d2", "one GPU over two, D=2", "4x", "x", oneOverTwo(2), meanRatio, inRange(2, 8),
			"twice the memory, too: fewer swaps as well as shorter queues"},
		{"gpus-d3", "one GPU over two, D=3", "4x", "x", oneOverTwo(3), meanRatio, inRange(2, 8), "twice the memory, too: fewer swaps as well as shorter queues"},
	}},
	// Claims that depend on swapping, with the same small memory size for every function, to
	// show the effect of our larger sizes.
	{"Sensitivity: 1.5 GB for every function, 0.75 of the utilization warm work", []claim{
		{"light-fcfs-d1", "FCFS over MQFQ at D=1", "4.4x", "x", runs{"azure fcfs tokens=1" + light, medium + " tokens=1" + light}, meanRatio, inRange(2.2, 8.8),
			"with little to swap FCFS loses only the time that bursts cost the others"},
		{"light-fcfs-swap", "the same, FCFS swapping out after every run", "4.4x", "x",
			runs{"azure fcfs tokens=1 swap-each-run" + light, medium + " tokens=1" + light}, meanRatio, inRange(2.2, 8.8),
			"the paper's public code swaps a baseline's memory so; that alone makes such a gap"},
		{"light-fcfs-d2", "FCFS over MQFQ at D=2", "2-5x", "x", runs{"azure fcfs" + light, medium + light}, meanRatio, inRange(2, 10),
			"concurrent runs of one function start cold under FCFS"},
		{"light-batch-d1", "Batch over MQFQ at D=1", "> 1x", "x", runs{"azure batch tokens=1" + light, medium + " tokens=1" + light}, meanRatio, atLeast(1.02),
			"with little to swap, batches lose to bursts of long runs more than they save"},
		{"light-batch-place", "Batch lies between MQFQ (0) and FCFS (1) at D=1, on a log scale", "between", "",
			runs{medium + " tokens=1" + light, "azure batch tokens=1" + light, "azure fcfs tokens=1" + light}, onLogScale, between(), "with little to swap, batches lose to bursts of long runs more than they save"},
		{"light-t0", "T=0 over T=10", "2.5x", "x", runs{medium + " overrun=0s" + light, medium + light}, meanRatio, inRange(1.25, 5),
			"the effect grows with the footprints"},
		{"light-preferential", "least virtual time over longest queue", "1.01-1.30x", "x", runs{"azure mqfq" + light, medium + light}, meanRatio, inRange(1.01, 1.4), "the effect grows with the footprints"},
		{"light-gpus", "one GPU over two, D=1", "2.3x", "x", runs{medium + " tokens=1" + light, medium + " tokens=1 devices=2" + light}, meanRatio, inRange(1.15, 4.6), "the effect grows with the footprints"},
	}},
	// The TTL's again where all memory fits on the device and coming back is slow,
	// as when pages come by faults: there a TTL decides whether memory is there
	// when its function is called.
	{"Sensitivity: TTL with 500 MB for every function, 0.75 of the utilization warm work, a slow link", []claim{
		{"light-ttl-none-2", "alpha=0 over alpha=2, 2 GB/s", "1.5x", "x", runs{slow + " swap-bandwidth=2" + noTTL, slow + " swap-bandwidth=2" + alpha2}, meanRatio, inRange(1.25, 2.25),
			"everything fits: memory that was moved out for nothing comes back, slowly"},
		{"light-ttl-none", "the same, 1.5 GB/s", "1.5x", "x", runs{slow + " swap-bandwidth=1.5" + noTTL, slow + " swap-bandwidth=1.5" + alpha2}, meanRatio, inRange(1.25, 2.25),
			"without a TTL the link saturates"},
		{"light-ttl-short", "one TTL of 0.1 s over none, 1.5 GB/s", "0.75x", "x", runs{slow + " swap-bandwidth=1.5" + shortTTL, slow + " swap-bandwidth=1.5" + noTTL}, meanRatio, inRange(0.6, 0.9),
			"bursts come back within it"},
		{"light-ttl-global", "one global inter-arrival time over each function's own, 1.5 GB/s", "1.15x", "x",
			runs{slow + " swap-bandwidth=1.5 ttl-global" + alpha2, slow + " swap-bandwidth=1.5" + alpha2}, meanRatio, inRange(1.05, 1.35),
			"the popular functions, which make the mean, stay active either way"},
	}},
	{"Beyond the paper: a call a minute behind a hundred busy functions, load 1.1, ten minutes, 80 GB and 128 containers", rareClaims()},
	{"Beyond the paper: sticky-plus over MQFQ-Sticky with an LRU pool (Zipf)", plusClaims()},
	{"Beyond the paper: dynamic D of at most 4, MQFQ-Sticky, medium trace", []claim{
		{"dynamic-4", "over a fixed D=4", "goal <= 1x", "x", runs{medium + " tokens=4 dynamic-tokens", medium + " tokens=4"}, meanRatio, goal(1),
			"four at once slow each run, and D comes down"},
		{"dynamic-2", "over the best fixed D, 2", "goal <= 1.5x", "x", runs{medium + " tokens=4 dynamic-tokens", medium}, meanRatio, goal(1.5),
			"utilization is full with one busy kernel and would keep D at 1; measured throughput outranks it, but must be learned first"},
	}},
}

func loadClaims() (list []claim) {
	for _, l := range []float64{0.5, 0.7, 0.85, 0.95} {
		list = append(list, claim{
			fmt.Sprintf("load-%.0f", l*100), fmt.Sprintf("FCFS over MQFQ, mean latency at load %.2f", l), "> 2x", "x",
			runs{fmt.Sprintf("zipf fcfs load=%v", l), fmt.Sprintf(zipfMQFQ+" load=%v", l)}, meanRatio, atLeast(2),
			"below saturation queues are short in any order",
		})
	}
	return list
}

// concurrencyClaims try interference factors from mild to harsh around the
// default: the paper prints none, and D=3 stands or falls with them.
func concurrencyClaims() (list []claim) {
	models := []struct{ name, s string }{{"mild", "1,1.1,1.3,1.6"}, {"default", "1,1.3,2.1,3"}, {"harsh", "1,1.7,2.9,4.2"}}
	at := func(policy, s string, d int) string {
		return fmt.Sprintf("azure %s interference=%s tokens=%d", policy, s, d)
	}
	text := func(s string) string { return " s = [" + strings.ReplaceAll(s, ",", " ") + "]" }
	for _, m := range models {
		list = append(list, claim{"d2-" + m.name, "MQFQ, D=2 over D=1," + text(m.s), "0.75x", "x", runs{at(mqfq, m.s, 2), at(mqfq, m.s, 1)}, meanRatio, inRange(0.6, 0.9),
			"a second token adds capacity by 2/s(2) and hides swaps and cold starts"})
	}
	for _, m := range models {
		var pairs runs
		for _, p := range []string{mqfq, "fcfs", "batch", "paella"} {
			pairs = append(pairs, at(p, m.s, 3), at(p, m.s, 2))
		}
		list = append(list, claim{"d3-" + m.name, "D=3 over D=2, the policy that suffers least," + text(m.s), "> 1x for all", "x", pairs, leastOver, atLeast(1.0001),
			"s(3), which is the device's, decides; in some seeds one policy gains much"})
	}
	for _, m := range models {
		list = append(list, claim{"d3-mqfq-" + m.name, "D=3 over D=2, MQFQ," + text(m.s), "> 1x", "x", runs{at(mqfq, m.s, 3), at(mqfq, m.s, 2)}, meanRatio, atLeast(1.0001),
			"three runs do less per second than two where s(3)/3 exceeds s(2)/2, and need three footprints"})
	}
	return list
}

func poolClaims() (list []claim) {
	for _, n := range []int{4, 8, 16, 32} {
		list = append(list, claim{
			fmt.Sprintf("pool-mqfq-%d", n), fmt.Sprintf("MQFQ, cold starts with %d containers", n), "2-8%", "%",
			runs{fmt.Sprintf(medium+" pool=%d", n)}, coldPercent, atMost(8, 12),
			"of 19 functions; a pool for all has first starts alone",
		})
	}
	return list
}

// oneOverTwo are the runs of the high-load trace on one device and on two.
func oneOverTwo(d int) runs {
	one := fmt.Sprintf(medium+" trace-id=6 tokens=%d", d)
	return runs{one, one + " devices=2"}
}

// rareClaims measures the wait of a rare call behind a hundred flows that all have queued
// work, under each policy. The paper claims nothing about this.
func rareClaims() (list []claim) {
	why := map[string]string{
		mqfq:     "all inside the window may go before it, until each of them leads it by T",
		plus:     "the same; a function never seen is expected to take a tenth of T, so its first call waits longest",
		"mqfq":   "only flows as far behind go first",
		"sfq":    "the same with one run at a time, which serves less than arrives",
		"fcfs":   "it waits for all that came before, which grows",
		"batch":  "it is in line by its age, behind whole queues",
		"paella": "the flow that has gone without for longest goes first",
		"sjf":    "all are expected to take about the same, so chance decides",
		"eevdf":  "nearly the order of arrival",
	}
	for _, p := range Policies() {
		if !p.NoPool {
			list = append(list, claim{"rare-" + p.Name, p.Name + ", mean latency of the rare call", "-", " s", runs{"rare " + p.Name + rareServer},
				func(r []*Result) float64 { return ofTheRare(r[0]) }, measured(), why[p.Name]})
		}
	}
	return list
}

// gridPools, gridLoads and gridTokens are where sticky-plus is compared with the
// paper's policy.
var (
	gridPools  = []int{8, 16, 24, 32}
	gridLoads  = []float64{0.3, 0.5, 0.7, 0.85, 0.95}
	gridTokens = []int{1, 2, 3}
)

const (
	gridPrefix   = "grid-" // begins the names of the grid's claims
	claimedRatio = 1.05    // that no cell of the grid should exceed
)

func gridName(pool int, load float64, d int) string {
	return fmt.Sprintf("%s%d-%.2f-%d", gridPrefix, pool, load, d)
}

// plusClaims are about sticky-plus, which the paper does not have.
func plusClaims() []claim {
	pair := runs{"zipf sticky-plus pool=16", zipfMQFQ + " pool=16"}
	list := []claim{
		{"plus-mean", "mean latency, load 0.7, 16 containers for 24 functions", "goal <= 0.35x", "x", pair, meanRatio, goal(0.35),
			"shortest first inside the window, retention by demand, no start where a container is soon free"},
		{"plus-p99", "p99 of the same", "goal <= 1x", "x", pair, func(r []*Result) float64 { return ratio(r[0].Latency.P99, r[1].Latency.P99) }, goal(1),
			"fewer cold starts shorten the worst waits as well"},
		{"plus-medium", "mean latency, medium trace, defaults", "goal <= 1x", "x", runs{"azure sticky-plus", medium}, meanRatio, goal(1),
			"the pool takes every function: only the order differs, and swaps are hidden behind runs"},
	}
	var ours runs
	for _, p := range gridPools {
		for _, l := range gridLoads {
			for _, d := range gridTokens {
				server := fmt.Sprintf(" pool=%d load=%v tokens=%d", p, l, d)
				ours = append(ours, "zipf sticky-plus"+server)
				list = append(list, claim{gridName(p, l, d), fmt.Sprintf("pool %d, load %.2f, D=%d", p, l, d), fmt.Sprintf("goal <= %.2fx", claimedRatio), "x",
					runs{"zipf sticky-plus" + server, zipfMQFQ + server}, meanRatio, goal(claimedRatio), ""})
			}
		}
	}
	return append(list, claim{"plus-bound", "largest gap over the derived bound, all of the grid", "goal <= 1 in every run", " of it", ours, largestGap, inEveryRun(goal(1)),
		"every choice is made inside the window, so the bound stands"})
}

// meanRatio is the mean latency of one run over that of another.
func meanRatio(r []*Result) float64 { return ratio(r[0].Latency.Mean, r[1].Latency.Mean) }

// leastOver is the least of such ratios of several pairs.
func leastOver(r []*Result) float64 {
	least := math.Inf(1)
	for pair := range slices.Chunk(r, 2) {
		least = min(least, meanRatio(pair))
	}
	return least
}

// onLogScale is where the second of three runs lies between the first (0) and
// the third (1).
func onLogScale(r []*Result) float64 {
	span := math.Log(ratio(r[2].Latency.Mean, r[0].Latency.Mean))
	return ratio(math.Log(ratio(r[1].Latency.Mean, r[0].Latency.Mean)), span)
}

// mostOverLeastMean is the largest mean latency over the smallest.
func mostOverLeastMean(rs []*Result) float64 {
	lo, hi := math.Inf(1), 0.0
	for _, r := range rs {
		lo, hi = min(lo, mean(r)), max(hi, mean(r))
	}
	return ratio(hi, lo)
}

// mostOverLeast is the spread of the service of the four copies after all are
// there and have had a minute to fill their queues.
func mostOverLeast(r []*Result) float64 {
	sums := make([]float64, 4)
	series := r[0].Series
	for w := len(series)/2 + 2; w < len(series) && float64(w+1)*30 <= 600; w++ {
		for i, s := range series[w] {
			sums[i] += s
		}
	}
	return ratio(slices.Max(sums), slices.Min(sums))
}

func withinVariance(r []*Result) float64 { return ratio(r[0].WithinVariance, r[1].WithinVariance) }

// coldPercent is the share of cold starts of the first run.
func coldPercent(r []*Result) float64 { return 100 * r[0].ColdShare }

// ofTheRare is the mean latency of the last function, in seconds.
func ofTheRare(r *Result) float64 { return r.Functions[len(r.Functions)-1].Latency.Mean / 1000 }
