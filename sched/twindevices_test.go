package sched

import (
	"slices"
	"time"
)

func (w *twin) device(index int) *twinDevice {
	for _, d := range w.devices {
		if d.index == index {
			return d
		}
	}
	return nil
}

func (w *twin) allowed(tokens int) int {
	if w.policy == "sfq" {
		return min(tokens, 1)
	}
	return tokens
}

func (w *twin) AddDevice(now time.Duration, index, tokens int) {
	w.clock(now)
	d := w.device(index)
	if d == nil {
		d = &twinDevice{index: index}
		w.devices = append(w.devices, d)
		slices.SortFunc(w.devices, func(a, b *twinDevice) int { return a.index - b.index })
	}
	d.tokens, d.reserved, d.leaving = w.allowed(tokens), 0, false
}

func (w *twin) RemoveDevice(now time.Duration, index int) {
	w.clock(now)
	d := w.device(index)
	d.leaving = true
	if d.flying == 0 {
		w.devices = slices.DeleteFunc(w.devices, func(x *twinDevice) bool { return x == d })
	}
}

func (w *twin) SetTokens(now time.Duration, index, tokens int) {
	w.clock(now)
	w.device(index).tokens = w.allowed(tokens)
}

func (w *twin) Reserve(now time.Duration, index int) bool {
	w.clock(now)
	d := w.device(index)
	if d.free() == 0 {
		return false
	}
	d.reserved++
	return true
}

func (w *twin) Release(now time.Duration, index int) {
	w.clock(now)
	if d := w.device(index); d != nil && d.reserved > 0 {
		d.reserved--
	}
}

func (w *twin) SetWeight(now time.Duration, id FlowID, weight float64) error {
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

func (w *twin) SetNamespaceWeight(now time.Duration, name string, weight float64) error {
	w.clock(now)
	w.nsWeights[name] = weight
	for _, s := range w.spaces {
		if s.name == name {
			s.weight = weight
		}
	}
	return nil
}
