package scheduler

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// recorded is the log of a scheduler under faults.
func recorded(t *testing.T, seed uint64, n int) []byte {
	s := newChaos(t, seed)
	log, err := AppendConfig(nil, s.l.cfg)
	check.NoError(t, err)
	s.observe = func(e *Event, orders []Order) {
		if e != nil {
			log, err = AppendEvent(log, *e)
		} else {
			log, err = AppendOrders(log, orders)
		}
		check.NoError(t, err)
	}
	s.run(n)
	return log
}

// TestLogGivesTheSameOrders: a replay gives the orders of its log, byte for byte, and
// a log that was changed fails.
func TestLogGivesTheSameOrders(t *testing.T) {
	for _, seed := range []uint64{0, 1, 2, 9} { // with served policies, as a replay knows no others
		log := recorded(t, seed, 700)
		r := &Replay{Check: seed == 0}
		for line := range bytes.Lines(log) {
			check.NoError(t, r.Line(line), "seed %d", seed)
		}
		check.AtLeast(t, r.Events, 700, "seed %d", seed)
		check.AtLeast(t, r.Orders, 100, "seed %d", seed)
		changed := bytes.Replace(log, []byte(`"start":"cold"`), []byte(`"start":"gpu-warm"`), 1)
		var differ *DifferError
		r = &Replay{}
		for line := range bytes.Lines(changed) {
			if err := r.Line(line); errors.As(err, &differ) {
				break
			}
		}
		check.That(t, differ != nil, "seed %d: a changed log passes", seed)
	}
}

// TestLogHasNoKeys: the keys of functions may be secret.
func TestLogHasNoKeys(t *testing.T) {
	f := fn("f", gib)
	f.Key = "guest:secret"
	line, err := AppendEvent(nil, Event{Kind: Submitted, Invocation: 1, Function: f})
	check.NoError(t, err, "%s", line)
	check.Lacks(t, string(line), "secret")
}

// TestLogErrors: errors name the line.
func TestLogErrors(t *testing.T) {
	head, err := AppendConfig(nil, config("fcfs", 1))
	check.NoError(t, err)
	for _, c := range []struct{ log, want string }{
		{"{}", "line 1: a log of version 0, this program reads version 9"},
		{`{"lane":1,"config":{}}`, "line 1: a log of version 1, this program reads version 9"},
		{`hello`, "line 1: the first line of a scheduler's log has its settings"},
		{`{"scheduler":4,"config":{}}`, "line 1: "},
		{string(head) + `{"at":1,"event":"sneezed"}`, `line 2: event "sneezed": not one of [submitted`},
		{string(head) + `{"at":1,"event":"tick","colour":1}`, `line 2: read`},
		{string(head) + `{"at":9000000000000000000,"event":"tick"}`, `line 2: a time beyond`},
		{string(head) + `{"orders":[{"do":"remove"}]}`, "line 2: the orders differ\nrecorded: "},
	} {
		r := &Replay{}
		var err error
		for line := range bytes.Lines([]byte(c.log)) {
			if err = r.Line(line); err != nil {
				break
			}
		}
		check.That(check.Must(t), err != nil, "%s: %v, want %s", c.log, err, c.want)
		check.That(t, strings.HasPrefix(err.Error(), c.want), "%s: %v, want %s", c.log, err, c.want)
	}
}

// FuzzReplay: no log breaks a scheduler.
func FuzzReplay(f *testing.F) {
	for _, seed := range []uint64{0, 1, 2, 9} {
		var log []byte
		n := 0
		for line := range bytes.Lines(recorded(&testing.T{}, seed, 60)) {
			if n++; n > 80 {
				break
			}
			log = append(log, line...)
		}
		f.Add(log)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		r := &Replay{Check: true}
		for line := range bytes.Lines(log) {
			var differ *DifferError
			if err := r.Line(line); err != nil && r.scheduler == nil {
				return
			} else if errors.As(err, &differ) {
				continue
			}
		}
	})
}
