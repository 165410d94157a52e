package assembly

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
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
	if want := (container.Expiry{InitDelay: time.Minute, Interval: time.Hour + 5*time.Second, Limit: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if len(asked) != 1 || asked[0] != 10*time.Second {
		t.Errorf("drawn below %v, want below 10s once", asked)
	}
	never := func(time.Duration) time.Duration { t.Error("chance decides where nothing is to be added"); return 1 }
	if got := expiry(config.PrewarmExpiration{Interval: time.Hour}, never); got.Interval != time.Hour {
		t.Errorf("interval %v without variance", got.Interval)
	}
	if got := expiry(config.PrewarmExpiration{Variance: time.Second}, never); got.Interval != 0 {
		t.Errorf("interval %v where checks are off", got.Interval)
	}
	most := func(d time.Duration) time.Duration { return d - 1 }
	far := expiry(config.PrewarmExpiration{InitDelay: config.Forever, Interval: config.Forever, Variance: config.Forever}, most)
	if year := 365 * 24 * time.Hour; year+far.InitDelay < 0 || year+far.Interval < 0 || far.Interval < year {
		t.Errorf("%+v overflows", far)
	}
}

// TestDefaultVariance is up to ten seconds, as the original's.
func TestDefaultVariance(t *testing.T) {
	c := config.Default()
	for range 100 {
		if got := pool(c, noKinds(t)).Expiry.Interval - 10*time.Minute; got < 0 || got >= 10*time.Second {
			t.Fatalf("%v is added to the interval", got)
		}
	}
}
