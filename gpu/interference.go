package gpu

import (
	"fmt"
	"math"
	"time"
)

// Interference is the slowdown s(k) of each of k concurrent runs on one device, at index k-1.
// The paper measures the effect (section 5.2: D=3 is worse than D=2 for every policy) without
// printing the factors. They are a parameter everywhere, and no result depends on one choice.
type Interference []float64

// DefaultInterference returns the published default, s(1..4) = 1, 1.3, 2.1, 3.
func DefaultInterference() Interference { return Interference{1, 1.3, 2.1, 3} }

// slowdown returns s(k). Beyond the table the last step repeats, so that more
// runs never become cheaper; k below 1 counts as 1.
func (s Interference) Slowdown(k int) float64 {
	n := len(s)
	switch {
	case n == 0 || k < 1:
		return 1
	case k <= n:
		return s[k-1]
	case n == 1:
		return s[0]
	}
	return s[n-1] + float64(k-n)*(s[n-1]-s[n-2])
}

// Throughput returns k/s(k): the work done per second by k runs together,
// in units of one run alone.
func (s Interference) Throughput(k int) float64 {
	return float64(k) / s.Slowdown(k)
}

// Validate demands finite factors that start at 1 or more and never fall.
func (s Interference) Validate() error {
	if len(s) == 0 {
		return fmt.Errorf("interference: no factor given")
	}
	last := 1.0
	for i, f := range s {
		if math.IsNaN(f) || math.IsInf(f, 0) || f < last {
			return fmt.Errorf("interference s(%d) = %v: must be finite and at least %v", i+1, f, last)
		}
		last = f
	}
	return nil
}

// TransferModel models the path between host and device memory: bytes per second in
// each direction, and the share of a run's own transfer that hides behind the
// preparation of its arguments (paper, section 4.3: the prefetch overlaps with
// the marshaling of arguments).
type TransferModel struct {
	BytesPerSecond float64
	Overlap        float64
}

// DefaultTransferModel returns 12 GB/s without overlap, the speed of pinned copies over PCIe 3.0 x16.
func DefaultTransferModel() TransferModel { return TransferModel{BytesPerSecond: 12e9} }

// Transfer returns how long a movement of so many bytes occupies the link, at
// most the longest time that there is a number for.
func (l TransferModel) Transfer(bytes int64) time.Duration {
	if bytes <= 0 {
		return 0
	}
	took := float64(bytes) / l.BytesPerSecond * float64(time.Second)
	if took >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(took)
}

// Exposed returns the part of a run's own transfer that the run waits for.
func (l TransferModel) Exposed(transfer time.Duration) time.Duration {
	return time.Duration(float64(transfer) * (1 - l.Overlap))
}

// Validate demands a positive finite bandwidth and an overlap within 0 to 1.
func (l TransferModel) Validate() error {
	if !(l.BytesPerSecond > 0) || math.IsInf(l.BytesPerSecond, 0) {
		return fmt.Errorf("link bandwidth %v bytes/s: must be positive and finite", l.BytesPerSecond)
	}
	if !(l.Overlap >= 0 && l.Overlap <= 1) {
		return fmt.Errorf("link overlap %v: must lie within 0 and 1", l.Overlap)
	}
	return nil
}
