package lane

import "github.com/gpuwhisk/gpuwhisk/sched"

// relieve gives idle boxes up where host memory is short: for somebody outside
// who waits for it, or for a new box of another flow. What others hold and do
// not use is asked for before.
func (l *Lane) relieve() {
	if !l.limited {
		return
	}
	lack := l.host.Lacking
	if f := l.short(); f != nil {
		switch mb := l.next(f).hostMB; {
		case mb > l.host.Free+l.host.Spare:
			lack = max(lack, mb-l.host.Free)
		case !l.asked:
			l.asked = true
			l.order(Order{Do: Room, Flow: f.id, HostMB: mb})
		}
	}
	lack -= l.leaving
	for _, dev := range l.devices {
		for lack > 0 {
			b, ok := l.sacrifice(dev)
			if !ok {
				break
			}
			lack -= b.hostMB
		}
	}
}

// shortSearch bounds how many flows are looked at while others run: whoever is
// further behind is found when those before have their turn.
const shortSearch = 64

// short is the flow whose work has waited longest for host memory and for
// nothing else; nil for none.
func (l *Lane) short() *flow {
	if l.backlog.first == nil || l.host.Free >= l.largestHost {
		return nil
	}
	free, busy := false, false
	for _, dev := range l.devices {
		free = free || dev.open()
		busy = busy || dev.inFlight > 0
	}
	if !free {
		return nil
	}
	n := 0
	for f := l.backlog.first; f != nil; f = f.after {
		if n++; n > shortSearch && busy {
			return nil
		}
		if rev := l.next(f); !l.affords(rev) && l.policy.State(f.id) == sched.Active && l.wants(rev) {
			return f
		}
	}
	return nil
}

// wants tells whether a device has everything for a new box of a revision but
// host memory, and no box that would do.
func (l *Lane) wants(rev *revision) bool {
	for _, dev := range l.devices {
		if own, _, _ := l.serving(dev, rev); dev.open() && own == nil && l.place(dev) && l.holds(dev, rev, nil) {
			return true
		}
	}
	return false
}

// open tells whether a device is there and has a free token.
func (dev *device) open() bool { return dev.lost == "" && dev.inFlight < dev.d }
