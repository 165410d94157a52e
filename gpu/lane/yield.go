package lane

// yield gives idle boxes up for a reservation that even moving all idle memory
// out would not let stand: a context stays on the device as long as its box
// lives. When that does not help either, and nothing runs or leaves, nor is a
// box about to be idle, the reservation waits for nothing that will come: the
// run goes back to its queue, where a free device may serve it.
//
// It reports whether a run went back.
func (l *Lane) yield(dev *device) (back bool) {
	for dev.ledger.Shortfall() > 0 {
		if _, ok := l.sacrifice(dev); !ok {
			break
		}
	}
	if dev.ledger.Shortfall() == 0 || dev.ledger.Running() || dev.emptying() {
		return false
	}
	l.back = l.back[:0]
	for _, b := range dev.boxes {
		l.back = append(l.back, b.waiting...)
	}
	hopeless := l.back
	l.takeAllBack(hopeless)
	return len(hopeless) > 0
}

// emptying tells whether a box of the device will soon have nothing more in it
// than it has now: logs are being read that no token is held for.
func (dev *device) emptying() bool {
	for _, b := range dev.boxes {
		if b.inside > 0 {
			return true
		}
	}
	return false
}
