package sched

// maxLeast is how many first entries are asked for at once: of flows and namespaces
// of least virtual time, so many may be overdue (one that takes long must not hide
// those beside it).
const maxLeast = 4

// keptLeast is how many first entries are kept: several may go before they must
// be looked for again.
const keptLeast = 2 * maxLeast

// firsts is the first entries of many, in their order, as far as they are known.
type firsts struct {
	few   [keptLeast]entry
	known int
}

// some gives the first few of so many, and looks for them where too few are known.
func (f *firsts) some(of int, look func(buf []entry) int) []entry {
	if f.known < min(maxLeast, of) {
		f.known = look(f.few[:])
	}
	return f.few[:min(f.known, maxLeast)]
}

// came keeps the first entries when one comes to so many others.
func (f *firsts) came(e entry, others int) {
	if f.known == 0 || f.known < others && !e.before(f.few[f.known-1]) {
		return // it may be one of the first, but nobody knows
	}
	at := f.known
	for at > 0 && e.before(f.few[at-1]) {
		at--
	}
	if at == keptLeast {
		return
	}
	f.known = min(f.known+1, keptLeast)
	copy(f.few[at+1:f.known], f.few[at:])
	f.few[at] = e
}

// goes keeps them when one goes.
func (f *firsts) goes(e entry) {
	for i := range f.few[:f.known] {
		if f.few[i] == e {
			copy(f.few[i:], f.few[i+1:f.known])
			f.known--
			return
		}
	}
}
