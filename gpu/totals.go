package gpu

// Totals is what a ledger has charged, in bytes.
type Totals struct {
	Resident  int64 // data of containers on the device
	Allocated int64 // data of containers, on the device or on the host
	Reserved  int64 // promised to runs and prefetches beyond that
	Context   int64 // overhead of containers
	Foreign   int64 // of no known container
}

// Totals sums over all containers.
func (l *Ledger) Totals() Totals {
	t := Totals{Foreign: l.foreign}
	for _, a := range l.containers {
		t.Resident += a.resident
		t.Allocated += max(a.resident, a.footprint)
		t.Context += a.context()
		t.Reserved += a.charge() - a.context() - a.resident
	}
	return t
}

// Quiet reports whether nothing runs and nothing moves: the memory that the driver
// reports as used is then that of the containers and of other users.
func (l *Ledger) Quiet() bool {
	for _, a := range l.containers {
		if a.runs > 0 || a.move != settled {
			return false
		}
	}
	return true
}
