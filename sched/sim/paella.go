package sim

import "github.com/gpuwhisk/gpuwhisk/sched"

// paella takes the shortest expected service, with Paella's limit on
// unfairness: on each dispatch the winner pays 1 - 1/n and the other n-1
// backlogged flows earn 1/n; a flow whose deficit passed the limit goes first.
// It has the deficit of each flow.
type paella map[sched.Flow]int64

// credit is one dispatch in deficit units: fine enough for 1/n of 100,000
// flows, coarse enough for 10^11 dispatches.
const credit = 1 << 24

// deficitLimit is the deficit past which a flow goes before shorter ones.
const deficitLimit = 4 * credit

func newPaella() sched.Order {
	p := paella{}
	return sched.Order{Key: p.key, Granted: p.granted, Undone: p.undone}
}

// key puts the flows over the limit first, largest deficit first.
func (p paella) key(f sched.Flow) sched.Key {
	if p[f] >= deficitLimit {
		return sched.Key{0, -p[f]}
	}
	return sched.Key{1, int64(f.Expected())}
}

func (p paella) granted(winner sched.Flow) {
	n := int64(0)
	for range winner.Backlog() {
		n++
	}
	for f := range winner.Backlog() {
		if f.Competes() {
			p[f] += credit / n
		}
	}
	p[winner] -= credit
}

// undone pays the winner back; the others keep their earnings.
func (p paella) undone(winner sched.Flow) { p[winner] += credit }
