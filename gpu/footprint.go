package gpu

// Footprint learns how much device memory the runs of a function need. It
// answers with the largest of the last runs: about the 95th percentile of
// them, and a function that needs less than it once did is believed after a
// while. The zero value knows nothing.
type Footprint struct {
	recent [footprints]int64
	seen   int
}

// footprints is how many runs are remembered: the largest of n is exceeded by
// the next one about once in n+1 times.
const footprints = 19

// Add takes the peak of one run.
func (f *Footprint) Add(bytes int64) {
	f.recent[f.seen%footprints] = max(bytes, 0)
	f.seen++
	if f.seen == 2*footprints {
		f.seen = footprints
	}
}

// Bytes returns what the next run will need; false if no run was seen.
func (f *Footprint) Bytes() (int64, bool) {
	most := int64(0)
	for _, n := range f.recent {
		most = max(most, n)
	}
	return most, f.seen > 0
}
