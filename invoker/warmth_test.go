package invoker

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// A function is warm once it has run, also when its memory is evicted, until its
// container is removed.
func TestWarmthFollowsContainersAndTheirMemory(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		for _, name := range []string{"f", "g", "h"} {
			env.action(name, func(a *activation.Action) {
				annotate(`{"memory":"10 GB"}`)(a)
				a.Rev = "1-" + name
			})
		}
		seen := map[string][]string{}
		s := env.gpuSettings(1)
		s.GPU.Pool.Size = 2
		_, stop := env.start(s, func(iv *Invoker) {
			iv.dispatch.gpus.warmth = newWarmth(func(w Warmth) {
				seen[w.Function] = append(seen[w.Function], fmt.Sprintf("%s %s %t %t", w.Namespace, w.Revision, w.Warm, w.Resident))
			})
		})
		for _, name := range []string{"f", "g", "h"} {
			env.invokeAndWait(name, time.Minute)
		}
		stop()
		for name, want := range map[string][]string{
			"f": {"true true", "true false", "false false"}, "g": {"true true", "true false"}, "h": {"true true"},
		} {
			for i := range want {
				want[i] = "guest 1-" + name + " " + want[i]
			}
			check.EqualSlices(t, seen["guest/"+name], want, "%s", name)
		}
	})
}
