package invoker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// warmStatesSeen records the WarmStates of each function.
type warmStatesSeen map[string][]string

func (w warmStatesSeen) Notify(e Event) {
	s := e.(WarmState)
	w[s.Function] = append(w[s.Function], fmt.Sprintf("%s %s %t %t", s.Namespace, s.Revision, s.Warm, s.Resident))
}
func (warmStatesSeen) AdoptPin(string) (Pin, bool) { return 0, false }
func (warmStatesSeen) Return(context.Context, *activation.Message) (bool, error) {
	return false, nil
}

// TestWarmStatesFollowContainersAndTheirMemory: a function is warm from its first run, even
// if its memory is evicted, until its container is removed.
func TestWarmStatesFollowContainersAndTheirMemory(t *testing.T) {
	withFixture(t, func(t *testing.T, env *fixture) {
		for _, name := range []string{"f", "g", "h"} {
			env.action(name, func(a *activation.Action) {
				annotate(`{"memory":"10 GB"}`)(a)
				a.Rev = "1-" + name
			})
		}
		seen := warmStatesSeen{}
		s := env.gpuSettings(1)
		s.GPU.Pool.Size = 2
		_, stop := env.start(s, func(iv *Invoker) {
			iv.dispatch.gpus.warmStates = newWarmStates(seen)
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
