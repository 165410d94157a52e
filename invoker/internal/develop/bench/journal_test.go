package bench

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
)

// BenchmarkJournal measures the processor time of an activation with and without the
// journal, in two invokers in their own processes, with 64 activations in flight. Goal:
// the journal costs at most 5 us, and at most a factor of 1.1. The report has the mean,
// the worst pair of turns, and the 95 % confidence interval of the difference. Another
// build (otherBuild) is measured in the same turns.
func BenchmarkJournal(b *testing.B) {
	r := newController(b)
	programs := builds()
	var sides []*invokerProcess // of each build, with the journal and without
	for i, program := range programs {
		for k, more := range [][]string{nil, {"CONFIG_whisk_gpu_journal=none"}} {
			sides = append(sides, r.process(program, firstSide+2*i+k, append(more, processors())...))
		}
	}
	const count = 5000
	for _, s := range sides {
		r.burst(s.topic, 64, count)
	}
	worst := make([]float64, len(programs))
	for n := 0; b.Loop(); n++ {
		for i := range sides {
			s := sides[(i+n)%len(sides)] // so that each comes first as often
			s.Round(b, count, func() { r.burst(s.topic, 64, count) })
		}
		for i := range worst {
			worst[i] = max(worst[i], float64(sides[2*i].Rounds[n])/float64(max(sides[2*i+1].Rounds[n], 1)))
		}
	}
	for i, of := range []string{"", "-other"}[:len(programs)] {
		with, without := sides[2*i].Each(), sides[2*i+1].Each()
		b.ReportMetric(with, "cpu-us/run"+of)
		b.ReportMetric(without, "cpu-us/run-without"+of)
		b.ReportMetric(with-without, "journal-us/run"+of)
		b.ReportMetric(with/without, "ratio"+of)
		low, high := gauge.Interval(sides[2*i].Rounds, sides[2*i+1].Rounds)
		b.ReportMetric((low-1)*without, "journal-us/run-low"+of)
		b.ReportMetric((high-1)*without, "journal-us/run-high"+of)
		b.ReportMetric(worst[i], "worst-ratio"+of)
	}
	for _, s := range sides {
		s.stop()
	}
}
