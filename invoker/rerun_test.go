package invoker

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// What an earlier process left of an activation decides whether it runs: what
// had not begun does, what is completed does not, and what was running only
// where that is allowed and has not ended too many processes. Whatever happens
// it is answered once, and what it is answered with is no failure of this
// invoker in the eyes of a controller.
func TestWhatAnEarlierProcessLeft(t *testing.T) {
	for _, c := range []struct {
		name     string
		past     Delivery
		setting  bool
		noted    string // the annotation rerun; empty: none
		runs     int
		answered string // part of the error; empty: the action's answer
		acks     int
	}{
		{name: "new", runs: 1, acks: 1},
		{name: "begun", past: Delivery{Begun: true, Attempts: 1}, answered: "The invoker ended while the action ran.", acks: 1},
		{name: "begun, stopped in order", past: Delivery{Begun: true}, answered: "The invoker ended while the action ran.", acks: 1},
		{name: "begun, rerun by setting", past: Delivery{Begun: true, Attempts: 1}, setting: true, runs: 1, acks: 1},
		{name: "begun, rerun by annotation", past: Delivery{Begun: true, Attempts: 2}, noted: "true", runs: 1, acks: 1},
		{name: "begun, not by annotation", past: Delivery{Begun: true, Attempts: 1}, setting: true, noted: "false", answered: "The invoker ended while", acks: 1},
		{name: "ended three invokers", past: Delivery{Begun: true, Attempts: 3}, setting: true, noted: "true", answered: "The invoker ended 3 times", acks: 1},
		{name: "completed", past: Delivery{Completed: true}, setting: true},
		{name: "completed, and had begun", past: Delivery{Begun: true, Completed: true, Attempts: 1}, setting: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.logsAtOnce = true
			w.history = func(d *Delivery) {
				d.Begun, d.Attempts, d.Completed = c.past.Begun, c.past.Attempts, c.past.Completed
			}
			w.action("f", func(a *activation.Action) {
				if c.noted != "" {
					a.Annotations = activation.Annotations{{Key: "rerun", Value: []byte(c.noted)}}
				}
			})
			s := w.settings()
			s.Rerun = c.setting
			_, stop := w.start(s)
			id := w.invoke("f", nil)
			synctest.Wait()
			stop()
			if w.made != c.runs {
				t.Errorf("%s: ran %d times, want %d", c.name, w.made, c.runs)
			}
			if len(w.acks) != c.acks || len(w.records) != c.acks || len(w.done) != 1 {
				t.Fatalf("%s: %d acks, %d records, done %v; want %d of each and one", c.name, len(w.acks), len(w.records), w.done, c.acks)
			}
			if c.acks == 0 {
				return
			}
			rec := w.record(id)
			if got := string(rec.Response.Result); c.answered != "" && (!strings.Contains(got, c.answered) || rec.Response.StatusCode != activation.StatusWhiskError) {
				t.Errorf("%s: answered %d %s, want %q", c.name, rec.Response.StatusCode, got, c.answered)
			}
			if c.answered == "" && rec.Response.StatusCode != activation.StatusSuccess {
				t.Errorf("%s: status %d", c.name, rec.Response.StatusCode)
			}
			if w.acks[0].SystemError {
				t.Errorf("%s: the controller hears of a system error", c.name)
			}
		})
	}
}
