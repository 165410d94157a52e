package assembly

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// TestChecksOfPrewarmedAreSpread by a part of the variance, which is drawn once
// and never makes a time that overflows.
func TestChecksOfPrewarmedAreSpread(t *testing.T) {
	var asked []time.Duration
	half := func(d time.Duration) time.Duration {
		asked = append(asked, d)
		return d / 2
	}
	got := expiry(config.PrewarmExpiration{InitDelay: time.Minute, Interval: time.Hour, Variance: 10 * time.Second, Limit: 7}, half)
	check.Equal(t, got, container.Expiry{InitDelay: time.Minute, Interval: time.Hour + 5*time.Second, Limit: 7})
	check.EqualSlices(t, asked, []time.Duration{10 * time.Second}, "drawn below")
	never := func(time.Duration) time.Duration { t.Error("chance decides where nothing is to be added"); return 1 }
	check.Equal(t, expiry(config.PrewarmExpiration{Interval: time.Hour}, never).Interval, time.Hour)
	check.Equal(t, expiry(config.PrewarmExpiration{Variance: time.Second}, never).Interval, 0, "where checks are off")
	most := func(d time.Duration) time.Duration { return d - 1 }
	far := expiry(config.PrewarmExpiration{InitDelay: config.Forever, Interval: config.Forever, Variance: config.Forever}, most)
	const year = 365 * 24 * time.Hour
	check.AtLeast(t, year+far.InitDelay, 0)
	check.AtLeast(t, year+far.Interval, 0)
	check.AtLeast(t, far.Interval, year)
}

// TestDefaultVariance is up to ten seconds, as the original's.
func TestDefaultVariance(t *testing.T) {
	c := config.Default()
	for range 100 {
		added := pool(c, noKinds(t)).Expiry.Interval - 10*time.Minute
		check.AtLeast(check.Must(t), added, 0)
		check.Less(check.Must(t), added, 10*time.Second)
	}
}
