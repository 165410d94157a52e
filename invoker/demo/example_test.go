package demo

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
)

// TestTheExampleOfTheReadme: docs/examples/infer.py is deployed and called as
// README.md says, on the fake driver; the second run finds the model that the
// first one left on the device.
func TestTheExampleOfTheReadme(t *testing.T) {
	code, err := os.ReadFile("../../docs/examples/infer.py")
	if err != nil {
		t.Fatal(err)
	}
	library, driver := shim(t, Here())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := standalone.Start(ctx, standalone.Options{
		Data: t.TempDir(), Runtime: "process", GPUs: 1, FakeDriver: driver, Shim: library, Invoker: (&real{}).start, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	client, done, err := dial(s)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if err := deploy(client, Function{Name: "infer", Kind: pythonKind, Code: string(code), GPU: true}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		{"what a lovely warm day", "map[device:Fake GPU 0 label:friendly scores:map[friendly:15 unfriendly:0]]"},
		{"awful slow and cold", "map[device:Fake GPU 0 label:unfriendly scores:map[friendly:0 unfriendly:20]]"},
		{"", "map[device:Fake GPU 0 label:unknown scores:map[friendly:0 unfriendly:0]]"},
	} {
		answer, _, err := client.Actions.Invoke("infer", map[string]string{"text": c.text}, true, true) //nolint:bodyclose // the client has read it to its end
		if got := fmt.Sprint(answer); err != nil || got != c.want {
			t.Errorf("%q: %s, %v; want %s", c.text, got, err, c.want)
		}
	}
}
