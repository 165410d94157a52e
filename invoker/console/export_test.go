package console

import (
	"bytes"
	"math/rand/v2"
)

// For the tests in a browser, which are in a package of their own.
var (
	Sorted = sorted
	Large  = large
)

// Shaken is a history of snapshots, each with what has changed since the one
// before.
func Shaken(seed uint64, turns int) (all []any, deltas [][]byte, err error) {
	r := rand.New(rand.NewPCG(seed, 2))
	var d differ
	for turn := range turns {
		s := shaken(r, turn)
		var delta []byte
		if turn > 0 {
			if delta, err = d.change(all[turn-1], s); err != nil {
				return nil, nil, err
			}
		}
		all, deltas = append(all, s), append(deltas, bytes.Clone(delta))
	}
	return all, deltas, nil
}
