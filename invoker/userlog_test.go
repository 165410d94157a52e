package invoker

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// kept is a log store that keeps everything in memory.
type kept struct {
	mu      sync.Mutex
	entries []string
}

func (k *kept) Write(entry []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.entries = append(k.entries, string(entry))
}

// What goes to a log file has the form of the original's
// DockerToActivationFileLogStore: the container's line with four members more,
// then the activation without logs, with the id of the namespace. The record has
// the lines, as without it. Neither parameters nor keys are in it.
func TestUserLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("shown", func(a *activation.Action) { a.Namespace = "guest/pack" })
		w.setRun(func(int, []byte) proxy.Exchange { return answer(200, `{"shown":1}`) })
		w.logs = container.LogResult{
			Lines: []string{"2024-06-10T06:13:20.25Z        stdout: a"},
			Raw:   [][]byte{[]byte(`{"log":"a\n","stream":"stdout","time":"2024-06-10T06:13:20.25Z"}`)},
		}
		files := &kept{}
		w.userLogs = files
		_, stop := w.start(w.settings())
		w.invoke("shown", func(m *activation.Message) {
			m.User.Namespace = activation.Namespace{Name: "caller", UUID: "the-uuid"}
			m.Content = json.RawMessage(`{"password":"secret"}`)
		})
		synctest.Wait()
		stop()
		if len(files.entries) != 1 || !w.asked[0].Raw {
			t.Fatalf("%d entries, log request %+v", len(files.entries), w.asked[0])
		}
		entry := files.entries[0]
		lines := strings.SplitAfter(entry, "\n")
		id := string(w.records[0].ActivationID)
		want := `{"log":"a\n","stream":"stdout","time":"2024-06-10T06:13:20.25Z","activationId":"` + id +
			`","action":"guest/pack/shown","namespace":"caller","namespaceId":"the-uuid"}` + "\n"
		if len(lines) != 3 || lines[0] != want || lines[2] != "" {
			t.Fatalf("wrote %q, want first %q", lines, want)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, name := range []string{"activationId", "annotations", "duration", "end", "logs", "name", "namespace", "namespaceId",
			"publish", "response", "start", "subject", "version"} {
			if _, ok := got[name]; ok {
				names = append(names, name)
			}
		}
		if len(names) != 13 || len(got) != 13 {
			t.Errorf("the activation has %d members, of them %v", len(got), names)
		}
		if got["namespaceId"] != "the-uuid" || !reflect.DeepEqual(got["logs"], []any{}) ||
			!reflect.DeepEqual(got["response"], map[string]any{"statusCode": 0.0, "result": map[string]any{"shown": 1.0}, "size": 11.0}) {
			t.Errorf("the activation is %s", lines[1])
		}
		if !reflect.DeepEqual(w.records[0].Logs, w.logs.Lines) {
			t.Errorf("the record has %q", w.records[0].Logs)
		}
		for _, secret := range []string{"secret", `"s"`, "k:s"} {
			if strings.Contains(entry, secret) {
				t.Errorf("%q is in the file", secret)
			}
		}
	})
}
