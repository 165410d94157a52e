package forward

import (
	"math"
	"time"
)

const (
	// learning is the time in which a candidate whose backlog is far above the mean loses
	// 63% of its weight.
	learning = 200 * time.Second
	// usual is a backlog that is not large. It keeps small differences from mattering much.
	usual = 30 * time.Second
	// mostLogWeight limits the weights to between 0.22 and 4.5 times the geometric mean.
	mostLogWeight = 1.5
)

// learn changes the weight of a candidate that has reported. since is the time since its
// previous report. A candidate with more backlog than the mean becomes lighter, so that it is
// the home of fewer functions, and one with less backlog becomes heavier. The weights settle
// where all backlogs are equal.
func (t *Table) learn(now time.Duration, c *candidate, since time.Duration) {
	sum, logSum, n := time.Duration(0), 0.0, 0.0
	for i := range t.candidates {
		if other := &t.candidates[i]; other.refuses(now) == "" {
			sum += other.Backlog
			logSum += other.logWeight
			n++
		}
	}
	if n < 2 || c.refuses(now) != "" {
		return
	}
	mean, backlog := sum.Seconds()/n, c.Backlog.Seconds()
	excess := (backlog - mean) / (backlog + mean + usual.Seconds()) // between -1 and 1
	middle := logSum / n
	w := c.logWeight - min(since, fresh).Seconds()/learning.Seconds()*excess
	c.setLogWeight(min(max(w, middle-mostLogWeight), middle+mostLogWeight))
	if math.Abs(middle) > 1 { // only ratios of weights matter
		for i := range t.candidates {
			t.candidates[i].setLogWeight(t.candidates[i].logWeight - middle)
		}
	}
}

func (c *candidate) setLogWeight(w float64) { c.logWeight, c.weight = w, math.Exp(w) }

// score returns the score of a candidate for a function. The candidates of a function are
// ordered by their scores, highest first. A candidate is the first in proportion to its
// weight (weighted rendezvous hashing).
func (c *candidate) score(function uint64) float64 {
	return math.Log(share(c.draw(function))) / c.weight
}

// draw returns a random number that depends only on the function and the invoker.
func (c *candidate) draw(function uint64) uint64 { return mix(function ^ mix(uint64(c.Invoker)+1)) }

// share maps a random number to the interval from 0 to 1, both excluded.
func share(x uint64) float64 { return (float64(x>>11) + 0.5) / (1 << 53) }
