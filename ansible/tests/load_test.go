//go:build ansible

package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// load makes blocking calls of actions through the REST interface and stores the
// answers.
type load struct {
	w      *fixture
	invoke func(action string) (id, by string, err error)
	stop   chan struct{}
	done   sync.WaitGroup

	mu       sync.Mutex
	sent     int
	answered map[string]answer // by activation id
	wrong    []string
}

// answer holds the invoker that ran an activation, and the time of its ack.
type answer struct {
	by string
	at time.Time
}

// pause is the time between two calls of an action, so that each can be checked
// separately at the end.
const pause = 400 * time.Millisecond

// The names of the actions spread them over the invokers.
const actions = 8

func (w *fixture) call(method, path, body string) (int, []byte, error) {
	req, err := http.NewRequest(method, w.admin.Info().APIHost+"/api/v1/namespaces/_/"+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	user, password, _ := strings.Cut(w.admin.Info().Guest().AuthKey(), ":")
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

// startLoad calls actions until end.
func (w *fixture) startLoad() *load {
	w.t.Helper()
	l := &load{w: w, invoke: w.invoke, stop: make(chan struct{}), answered: map[string]answer{}}
	if w.scheduling != nil {
		l.invoke = w.scheduling.invoke
	}
	const code = `function main() { return new Promise(r => setTimeout(() => r({by: 'gpuwhisk'}), 300)) }`
	for n := range actions {
		name := fmt.Sprint("a", n)
		w.create(name, code)
		l.done.Go(func() { l.run(name) })
	}
	return l
}

// invoke calls an action through the REST interface.
func (w *fixture) invoke(action string) (id, by string, err error) {
	status, text, err := w.call("POST", "actions/"+action+"?blocking=true", "{}")
	var got struct {
		ID       string `json:"activationId"`
		Response struct {
			Result struct{ By string }
		}
	}
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&got)
	}
	if by = got.Response.Result.By; err != nil || status != 200 || by == "" {
		return "", "", fmt.Errorf("%w %d %s", err, status, text)
	}
	return got.ID, by, nil
}

func (l *load) run(action string) {
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(pause):
		}
		l.mu.Lock()
		l.sent++
		l.mu.Unlock()
		id, by, err := l.invoke(action)
		l.mu.Lock()
		if err != nil {
			l.wrong = append(l.wrong, err.Error())
		} else {
			l.answered[id] = answer{by, time.Now()}
		}
		l.mu.Unlock()
	}
}

// end stops the load, and checks that every call was answered and recorded.
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
	check.Greater(t, l.sent, 0, "calls that were sent")
	check.Equal(t, len(l.answered), l.sent, "acked calls, of all sent calls")
	check.Equal(t, recorded, len(l.answered), "recorded calls, of all acked calls")
	check.Greater(t, by["stock"], 0, "calls that the original ran")
	check.Greater(t, by["gpuwhisk"], 0, "calls that ours ran")
}

// recorded counts the answered activations with a record in the database. Records are
// written a moment after the ack, so it waits for the database's changes.
func (l *load) recorded(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	missing := make(map[string]answer, len(l.answered))
	for id, a := range l.answered {
		missing["guest/"+id] = a
	}
	for since := "0"; len(missing) > 0; {
		found, now, err := l.w.changes(ctx, since)
		if err != nil {
			var some []string
			for id, a := range missing {
				some = append(some, fmt.Sprintf("%s by %s at %s", id, a.by, a.at.UTC().Format(time.RFC3339Nano)))
			}
			t.Errorf("%d activations have no record, for example %q: %v\n%s", len(missing), some[:min(3, len(some))], err, l.w.logs())
			break
		}
		for _, id := range found {
			delete(missing, id)
		}
		since = now
	}
	return len(l.answered) - len(missing)
}

// database requests a path of the database with this name in OpenWhisk's settings.
func (w *fixture) database(ctx context.Context, name, path string) (*http.Response, error) {
	env := w.vars["test_env"].(map[string]string)
	get := func(key string) string { return env["CONFIG_whisk_couchdb_"+key] }
	at := fmt.Sprintf("%s://%s:%s/%s/%s", get("protocol"), get("host"), get("port"), get("databases_"+name), path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(get("username"), get("password"))
	return http.DefaultClient.Do(req)
}

// changes waits for new documents in the database of activations since a position in its
// history. It returns their ids and the new position.
func (w *fixture) changes(ctx context.Context, since string) (ids []string, now string, err error) {
	res, err := w.database(ctx, "WhiskActivation", "_changes?feed=longpoll&timeout=30000&since="+url.QueryEscape(since))
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	var output struct {
		Results []struct{ ID string }
		Last    json.RawMessage `json:"last_seq"` // a number, or a text with CouchDB
	}
	if err := json.NewDecoder(res.Body).Decode(&output); err != nil || res.StatusCode != http.StatusOK {
		return nil, "", fmt.Errorf("changes of the database: %s %w", res.Status, err)
	}
	for _, doc := range output.Results {
		ids = append(ids, doc.ID)
	}
	return ids, strings.Trim(string(output.Last), `"`), nil
}
