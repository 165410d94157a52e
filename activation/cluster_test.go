package activation

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestClusterKeys(t *testing.T) {
	const c = Cluster("whisk")
	echo := NewQueue("guest", ActionRef{Path: "whisk.system/utils", Name: "echo", Version: "0.0.1", Binding: "guest/u"}, "3-77d1f0a2b3c4d5e6f708192a3b4c5d6e")
	none := NewQueue("guest", ActionRef{Path: "guest", Name: "hello"}, "")
	i := Instance{UniqueName: "0"}
	const id = ID("2b1f0c9e8d7a4b6c9a0d1e2f3a4b5c6d")
	for got, want := range map[string]string{
		c.Invoker(i):          "whisk/invokers/0/0",
		c.Invoker(Instance{}): "whisk/invokers/0",
		c.Invoker(Instance{ID: 12, UniqueName: "u", DisplayedName: "d"}): "whisk/invokers/12/u/d",
		c.Existing(echo, i, "9f0e"):                                      "whisk/namespace/guest/whisk.system/utils/echo/3-77d1f0a2b3c4d5e6f708192a3b4c5d6e/invoker0/container/9f0e",
		c.Existing(none, i, "9f0e"):                                      "whisk/namespace/guest/guest/hello/null/invoker0/container/9f0e",
		c.ExistingIn("guest"):                                            "whisk/namespace/guest/",
		c.Warmed(echo, i, "9f0e"):                                        "whisk/warmed/guest/whisk.system/utils/echo/3-77d1f0a2b3c4d5e6f708192a3b4c5d6e/invoker/0/container/9f0e",
		c.WarmedAll():                                                    "whisk/warmed/",
		c.InProgress(none, "1", id):                                      "whisk/in-progress/guest/guest/hello/null/scheduler/1/creationId/2b1f0c9e8d7a4b6c9a0d1e2f3a4b5c6d",
		c.InProgressIn("guest"):                                          "whisk/in-progress/guest/",
		c.Lease(i):                                                       "whisk/instance/invoker0/0/lease",
		c.Leader(echo):                                                   "whisk/queue/guest/whisk.system/utils/echo/leader",
		c.Leaders():                                                      "whisk/queue/",
		c.Scheduler("0"):                                                 "whisk/scheduler/0",
		c.Throttled("guest"):                                             "whisk/throttling/guest",
		c.ThrottledAction(echo):                                          "whisk/throttling/guest/whisk.system/utils/echo",
	} {
		check.Equal(t, got, want)
	}
	for _, key := range []string{c.Existing(echo, i, "9f0e"), c.Warmed(echo, i, "9f0e")} {
		n, ok := InvokerOf(key)
		check.Equal(t, n, 0, "the invoker of %s", key)
		check.That(t, ok, "the invoker of %s is %d, %v", key, n, ok)
		check.Equal(t, ContainerOf(key), "9f0e", "the container of %s", key)
	}
	n, ok := c.InvokerOfHealth("whisk/invokers/12/u/d")
	check.Equal(t, n, 12, "the record is of invoker")
	check.That(t, ok, "the record is of invoker %d, %v", n, ok)
	for _, key := range []string{"", "whisk/invokers/", "whisk/invokers/x", "other/invokers/1"} {
		_, ok := c.InvokerOfHealth(key)
		check.That(t, !ok, "%s names an invoker", key)
	}
	for _, key := range []string{"", "a/b", "invokerx/container/1", "invoker/-1/container/1", "1/box/2"} {
		_, ok := InvokerOf(key)
		check.That(t, !ok, "%s names an invoker", key)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("whisk/namespace/guest/guest/hello/null/invoker0/container/9f0e")
	f.Add("whisk/invokers/0/0")
	f.Fuzz(func(t *testing.T, key string) {
		if id, ok := InvokerOf(key); ok && id < 0 {
			t.Fatalf("invoker %d", id)
		}
		if id, ok := Cluster("whisk").InvokerOfHealth(key); ok && id < 0 {
			t.Fatalf("invoker %d", id)
		}
		id := ContainerOf(key)
		check.Lacks(check.Must(t), id, "/")
		check.That(check.Must(t), strings.HasSuffix(key, id), "container %q", id)
	})
}
