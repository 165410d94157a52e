//go:build ansible

package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
)

// load calls actions through the door, blocking, and keeps account.
type load struct {
	w    *world
	stop chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	sent     int
	answered map[string]answer // by activation id
	wrong    []string
}

// answer tells who ran an activation, and when that was known.
type answer struct {
	by string
	at time.Time
}

// pause between two calls of an action, so that what is sent can be looked at
// one by one in the end.
const pause = 400 * time.Millisecond

// The actions are spread over the invokers by their names.
const actions = 8

func (w *world) call(method, path, body string) (int, []byte, error) {
	req, err := http.NewRequest(method, w.door.Info().APIHost+"/api/v1/namespaces/_/"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	user, password, _ := strings.Cut(standalone.Guest().AuthKey(), ":")
	req.SetBasicAuth(user, password)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, text, err
}

func (w *world) startLoad() *load {
	w.t.Helper()
	l := &load{w: w, stop: make(chan struct{}), answered: map[string]answer{}}
	const code = `function main() { return new Promise(r => setTimeout(() => r({by: 'gpuwhisk'}), 300)) }`
	body, _ := json.Marshal(map[string]any{"exec": map[string]any{"kind": "nodejs:20", "code": code}, "limits": map[string]any{"memory": 128}})
	for n := range actions {
		if status, text, err := w.call("PUT", fmt.Sprintf("actions/a%d?overwrite=true", n), string(body)); err != nil || status != 200 {
			w.t.Fatalf("create action: %v %d %s", err, status, text)
		}
		l.done.Go(func() { l.run(fmt.Sprintf("actions/a%d?blocking=true", n)) })
	}
	return l
}

func (l *load) run(path string) {
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(pause):
		}
		l.mu.Lock()
		l.sent++
		l.mu.Unlock()
		status, text, err := l.w.call("POST", path, "{}")
		var got struct {
			ID       string `json:"activationId"`
			Response struct {
				Result struct{ By string }
			}
		}
		if err == nil {
			err = json.NewDecoder(bytes.NewReader(text)).Decode(&got)
		}
		l.mu.Lock()
		if err != nil || status != 200 || got.Response.Result.By == "" {
			l.wrong = append(l.wrong, fmt.Sprintf("%v %d %s", err, status, text))
		} else {
			l.answered[got.ID] = answer{got.Response.Result.By, time.Now()}
		}
		l.mu.Unlock()
	}
}

// end stops the load and holds that everything sent was answered and recorded.
func (l *load) end(t *testing.T) {
	t.Helper()
	close(l.stop)
	l.done.Wait()
	by := map[string]int{}
	for _, a := range l.answered {
		by[a.by]++
	}
	recorded := l.recorded(t)
	t.Logf("sent %d, acked %d (%d by the original, %d by ours), recorded %d", l.sent, len(l.answered), by["stock"], by["gpuwhisk"], recorded)
	if len(l.wrong) > 0 {
		t.Errorf("%d calls failed, the first: %s\n%s", len(l.wrong), l.wrong[0], l.w.logs())
	}
	if l.sent == 0 || l.sent != len(l.answered) || recorded != len(l.answered) || by["stock"] == 0 || by["gpuwhisk"] == 0 {
		t.Errorf("sent %d, acked %d, recorded %d, ran by %v", l.sent, len(l.answered), recorded, by)
	}
}

// recorded counts the answered activations that the database has a record of.
// All are asked for at once: one by one, thousands take longer than the load.
func (l *load) recorded(t *testing.T) int {
	t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(time.Second) { // records are written a moment after the ack
		found := l.w.records(t)
		var missing []string
		for id, a := range l.answered {
			if !found["guest/"+id] {
				missing = append(missing, fmt.Sprintf("%s by %s at %s", id, a.by, a.at.UTC().Format(time.RFC3339Nano)))
			}
		}
		if len(missing) == 0 || time.Now().After(late) {
			if len(missing) > 0 {
				t.Errorf("%d activations have no record, among them %q:\n%s", len(missing), missing[:min(3, len(missing))], l.w.logs())
			}
			return len(l.answered) - len(missing)
		}
	}
}

// records are the names of all documents in the database of activations.
func (w *world) records(t *testing.T) map[string]bool {
	t.Helper()
	env := w.vars["test_env"].(map[string]string)
	get := func(key string) string { return env["CONFIG_whisk_couchdb_"+key] }
	req, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s://%s:%s/%s/_all_docs", get("protocol"), get("host"), get("port"), get("databases_WhiskActivation")), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(get("username"), get("password"))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all struct {
		Rows []struct{ ID string }
	}
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("list the records: %s %v", res.Status, err)
	}
	found := make(map[string]bool, len(all.Rows))
	for _, row := range all.Rows {
		found[row.ID] = true
	}
	return found
}
