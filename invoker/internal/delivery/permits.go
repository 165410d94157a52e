package delivery

// permits bound the activations that are accepted and not finished. A message is pulled
// for a common permit. An activation that waits for a GPU exchanges its common permit for
// a share of the GPU backlog, so that CPU activations are pulled however long the devices
// are busy. If the GPU backlog is full the activation keeps its common permit, so that the
// pressure reaches Kafka.
type permits struct {
	common int   // in use, including the permit for the next message
	taken  int   // activations of both kinds, without the next message
	gpu    int   // activations of the GPU backlog
	bytes  int64 // of these
}

// Reserve takes a common permit for the next message. It returns false if none is free.
func (t *Table) Reserve() bool {
	if t.common >= t.cfg.InFlight {
		return false
	}
	t.common++
	return true
}

// Unreserve gives the permit back because no message came.
func (t *Table) Unreserve() { t.common-- }

// Unfinished returns how many activations are accepted and not finished.
func (t *Table) Unfinished() int { return t.taken }

// Backlog returns the number and the memory of the activations of the GPU backlog.
func (t *Table) Backlog() (activations int, bytes int64) { return t.gpu, t.bytes }

// setApart moves an activation to the GPU backlog, if the backlog has space.
func (t *Table) setApart(a *Activation, bytes int64) {
	if a.apart || a.finished() || t.bytes+bytes > t.cfg.BacklogBytes {
		return
	}
	a.apart, a.bytes = true, bytes
	t.gpu++
	t.bytes += bytes
	t.common--
	t.order(Release, a)
}

// release frees the permit of an activation.
func (t *Table) release(a *Activation) {
	t.taken--
	if a.apart {
		t.gpu--
		t.bytes -= a.bytes
	} else {
		t.common--
	}
	t.order(Release, a)
}
