package sched

import "time"

func (w *oracle) SetWeight(now time.Duration, id FlowID, weight float64) error {
	w.clock(now)
	f := w.find(id)
	if f == nil && weight != 1 {
		f = w.flow(id)
		f.expired, f.deadline = true, w.now+int64(w.cfg.KeepInactive)
	}
	if f != nil {
		f.weight = weight
	}
	return nil
}

func (w *oracle) SetNamespaceWeight(now time.Duration, name string, weight float64) error {
	w.clock(now)
	w.weights[name] = weight
	for _, s := range w.spaces {
		if s.name == name {
			s.weight = weight
		}
	}
	return nil
}
