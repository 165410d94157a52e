package fakescheduler

import (
	"fmt"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestCandidates are the rules by which invokers are chosen.
func TestCandidates(t *testing.T) {
	one := func(id int, freeMB int64, change func(*activation.Health)) invoker {
		h := activation.Health{Status: activation.Up, FreeMB: freeMB}
		if change != nil {
			change(&h)
		}
		return invoker{id, h}
	}
	tags := func(t ...string) func(*activation.Health) { return func(h *activation.Health) { h.Tags = t } }
	all := []invoker{
		one(0, 512, nil), one(1, 512, nil), one(2, 128, nil),
		one(3, 512, tags("gpu")), one(4, 512, tags("gpu", "big")),
		one(5, 512, func(h *activation.Health) { h.Status = activation.Down }),
		one(6, 512, func(h *activation.Health) { h.DedicatedNamespaces = []string{"vip"} }),
	}
	for name, c := range map[string]struct {
		all  []invoker
		need need
		want string
	}{
		"no tags asked":                 {all, need{namespace: "guest", memoryMB: 256, strict: true}, "[0 1]"},
		"of a namespace with its own":   {all, need{namespace: "vip", memoryMB: 256, strict: true}, "[0 1 6]"},
		"small":                         {all, need{namespace: "guest", memoryMB: 128, strict: true}, "[0 1 2]"},
		"an image that is pulled":       {all, need{namespace: "guest", memoryMB: 256, strict: true, pulled: true}, "[1]"},
		"a tag":                         {all, need{namespace: "guest", memoryMB: 256, strict: true, resources: []string{"gpu"}}, "[3 4]"},
		"two tags":                      {all, need{namespace: "guest", memoryMB: 256, strict: true, resources: []string{"big", "gpu"}}, "[4]"},
		"a tag that none has":           {all, need{namespace: "guest", memoryMB: 256, strict: true, resources: []string{"tpu"}}, "NoAvailableResourceInvokersError"},
		"a tag that none has, or none":  {all, need{namespace: "guest", memoryMB: 256, resources: []string{"tpu"}}, "[0 1]"},
		"only tagged ones are there":    {all[3:5], need{namespace: "guest", memoryMB: 256, strict: true}, "[3 4]"},
		"only others' tags":             {all[3:5], need{namespace: "guest", memoryMB: 256, resources: []string{"tpu"}}, "[3 4]"},
		"too large":                     {all, need{namespace: "guest", memoryMB: 1024, strict: true}, "NoAvailableInvokersError"},
		"nine in ten are for runtimes":  {many(20), need{namespace: "guest", memoryMB: 256, strict: true}, fmt.Sprint(ids(many(18)))},
		"the last tenth is for images":  {many(20), need{namespace: "guest", memoryMB: 256, strict: true, pulled: true}, "[18 19]"},
		"of one invoker both are parts": {many(1), need{namespace: "guest", memoryMB: 256, strict: true, pulled: true}, "[0]"},
	} {
		from, failure := candidates(usable(c.all, c.need), c.need)
		got := fmt.Sprint(ids(from))
		if failure != activation.NoCreationError {
			got = string(failure)
		}
		check.Equal(t, got, c.want, "%s", name)
	}
}

func many(n int) []invoker {
	var all []invoker
	for i := range n {
		all = append(all, invoker{i, activation.Health{Status: activation.Up, FreeMB: 512}})
	}
	return all
}

func ids(all []invoker) []int {
	var ids []int
	for _, i := range all {
		ids = append(ids, i.id)
	}
	return ids
}

// TestNeed derives the requirements of a container from its action.
func TestNeed(t *testing.T) {
	m, err := activation.ParseManifest([]byte(manifest), activation.ManifestOptions{})
	check.NoError(t, err)
	for annotations, want := range map[string]need{
		``: {namespace: "guest", memoryMB: 256, strict: true},
		`{"key":"invoker-resources","value":["gpu"]}`:                                                                {namespace: "guest", memoryMB: 256, strict: true, resources: []string{"gpu"}},
		`{"key":"invoker-resources","value":["gpu","a100"]},{"key":"invoker-resources-strict-policy","value":false}`: {namespace: "guest", memoryMB: 256, resources: []string{"gpu", "a100"}},
	} {
		f := function("1-a", "0.0.1", annotations)
		f.action, err = f.MetaData.Decode(m)
		check.NoError(t, err)
		got := needOf(f)
		check.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s: got %+v, want %+v", annotations, got, want)
	}
}
