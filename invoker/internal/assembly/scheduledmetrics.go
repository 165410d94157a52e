package assembly

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull"
	"github.com/prometheus/client_golang/prometheus"
)

// pullGauges exports the numbers of pulled activations and of the schedulers' orders.
func pullGauges(s *status, m sink) {
	sourcesGauges(s, m)
	p := s.Schedulers
	m.gauge("scheduler_slots", "Containers that schedulers may count on, and slots of GPU functions.", float64(p.Slots.Fetching+p.Slots.Leaving+p.Slots.Opening))
	m.gauge("scheduler_paused", "Paused containers that schedulers can have resumed.", float64(p.Slots.Paused))
	m.gauge("scheduler_fetching", "Fetches that schedulers have not answered.", float64(p.Out))
	m.gauge("scheduler_pulled", "Activations that were fetched and have not ended.", float64(p.Slots.Runs))
	m.counter("scheduler_pulled_total", "Activations that were fetched.", float64(p.Pulled))
	m.gauge("scheduler_waiting_creations", "Creations of GPU functions whose ack is held back.", float64(p.Slots.Waiting))
	for what, n := range p.Creations {
		m.counter("scheduler_creations_total", "Creations by outcome: opened, reschedule (its scheduler tries again), failed, or without an ack.",
			float64(n), label{"class", classOf(what)}, label{"outcome", what})
	}
	if e := s.Etcd; e != nil {
		m.counter("etcd_leases_regained_total", "Leases of etcd that were lost and are replaced.", float64(max(e.Leases-1, 0)))
		m.counter("etcd_renewals_total", "Renewals of the present lease.", float64(e.Renewals), label{"lease", e.Lease})
	}
}

// classOf translates a creation's outcome into the original's words for its scheduler.
func classOf(outcome string) string {
	switch e := activation.CreationError(outcome); {
	case outcome == pull.Opened:
		return pull.Opened
	case e.Retried():
		return "reschedule"
	case e.Parsable():
		return "failed"
	}
	return "no ack"
}

// sampleEvery is how often the pool is sampled. The original does it each second, which
// no average needs.
const sampleEvery = 10 * time.Second

// samplePool keeps the distributions that the original's pool shows in this mode, until
// ctx ends.
func (a *scheduled) samplePool(ctx context.Context) {
	distribution := func(name, help string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "gpuwhisk", Name: name, Help: help, Buckets: []float64{10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000}, // Kamon's
		}, []string{"state"})
		a.metrics.MustRegister(h)
		return h
	}
	memory := distribution("scheduler_pool_mebibytes", "Memory of the pool by state, sampled.")
	containers := distribution("scheduler_pool_containers", "Containers of the pool by state, sampled.")
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		if work, err := a.invoker.Load().Status(ctx); err == nil {
			s, p := a.puller.Load().Stats().Slots, work.Pool
			for state, mb := range map[string]int64{"inprogress": s.OpeningMB, "busy": s.BusyMB, "warmed": s.PausedMB, "prewarmed": int64(p.PrewarmMB), "max": int64(p.MemoryMB)} {
				memory.WithLabelValues(state).Observe(float64(mb))
			}
			busy := s.Fetching + s.Leaving
			for state, n := range map[string]int{"busy": busy, "warmed": s.Paused, "prewarmed": p.Prewarm, "all": busy + s.Paused + p.Prewarm} {
				containers.WithLabelValues(state).Observe(float64(n))
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
