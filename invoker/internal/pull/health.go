package pull

import (
	"context"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// health returns the invoker's record. The caller must hold the lock.
func (p *Puller) health() activation.Health {
	s := p.table.Stats(time.Since(p.began))
	busy := s.BusyMB - s.IdleMB + p.containers.ReservedMB()
	h := activation.Health{
		Status: activation.Up, BusyMB: busy, InProgressMB: s.OpeningMB,
		FreeMB: max(p.cfg.MemoryMB-busy-s.OpeningMB, 0),
		Tags:   p.cfg.Instance.Tags, DedicatedNamespaces: p.cfg.Instance.DedicatedNamespaces,
	}
	switch {
	case p.disabled || p.stopping:
		h.Status = activation.Down
	case p.unable != "" || p.full:
		h.Status = activation.Unhealthy
	}
	return h
}

// reportHealth reports each change of the health until ctx ends, and once more then.
func (p *Puller) reportHealth(ctx context.Context) {
	var last activation.Health
	tick := time.NewTicker(p.cfg.ReportEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		p.mu.Lock()
		h := p.health()
		p.mu.Unlock()
		if first || !same(h, last) {
			if err := p.ports.Registry.Report(ctx, h); err == nil {
				last = h
			}
		}
		select {
		case <-tick.C:
		case <-p.changed:
		case <-ctx.Done():
			return
		}
	}
}

func same(a, b activation.Health) bool {
	return a.Status == b.Status && a.FreeMB == b.FreeMB && a.BusyMB == b.BusyMB && a.InProgressMB == b.InProgressMB &&
		slices.Equal(a.Tags, b.Tags) && slices.Equal(a.DedicatedNamespaces, b.DedicatedNamespaces)
}
