package delivery

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var rewrite = flag.Bool("rewrite", false, "write the results of the scripts anew; read the diff")

// TestScripts runs the scripts of testdata. A line is a command, and the lines with a tab
// after it are its orders and results. A script is a row of docs/delivery.md or a rule of
// the table.
//
//	new [events] [no-journal] [permits N] [backlog N]   starts a world
//	send A [blocking] [rerun] [silent]                  puts a message on the topic
//	fetch A [...]                                       has a scheduler hand it out
//	again A                                             has a scheduler hand it out again
//	deliver A, run A, pass A, taken A, refused A, left A, apart A BYTES
//	result A TEXT, answer A TEXT, file A TEXT, end A TEXT
//	acked A, stored A                                   the oldest ack, the record
//	tick TIME, commit, stop, close, kill, kill before ORDER, disk away, disk back
//	show A
func TestScripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	check.NoError(t, err)
	check.AtLeast(t, len(names), 4)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(name)
			check.NoError(t, err)
			got := script(t, string(text))
			if *rewrite {
				check.NoError(t, os.WriteFile(name, []byte(got), 0o644))
				return
			}
			check.Equal(t, got, string(text))
		})
	}
}

// script runs a script and returns it with its results.
func script(t *testing.T, text string) string {
	var out strings.Builder
	var w *world
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "\t") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if words[0] == "new" {
			w = scriptWorld(words[1:])
			continue
		}
		for _, result := range w.command(t, words) {
			fmt.Fprintf(&out, "\t%s\n", result)
		}
		check.NoError(check.Must(t), w.check(), "%s", line)
	}
	return out.String()
}

func scriptWorld(words []string) *world {
	cfg := Config{InFlight: 10, BacklogBytes: 1000, Events: slices.Contains(words, "events")}
	for i, word := range words {
		switch word {
		case "permits":
			_, _ = fmt.Sscan(words[i+1], &cfg.InFlight)
		case "backlog":
			_, _ = fmt.Sscan(words[i+1], &cfg.BacklogBytes)
		}
	}
	return newWorld(cfg, !slices.Contains(words, "no-journal"))
}

// command carries out one command and returns the results.
func (w *world) command(t *testing.T, words []string) []string {
	w.orders = nil
	id, text := activation.ID(""), ""
	if len(words) > 1 {
		id, text = activation.ID(words[1]), strings.Join(words[2:], " ")
	}
	end := End{Store: true}
	if text != "" {
		end.Record = recordOf(id, text)
	}
	switch words[0] {
	case "send", "fetch":
		has := func(word string) bool { return slices.Contains(words, word) }
		m := &message{id: id, blocking: has("blocking"), rerun: has("rerun"), silent: has("silent"), fetched: words[0] == "fetch"}
		w.messages = append(w.messages, m)
		if m.fetched {
			w.entry(id).message = true
		}
	case "again":
		if !w.table.Fetch(id) {
			return []string{"dropped"}
		}
		w.table.Unfetch(id)
		return []string{"used"}
	case "deliver":
		how, ok := w.deliver(w.find(id))
		if !ok {
			return []string{"no permit is free"}
		}
		name := [...]string{"run", "run again", "interrupt", "give up", "repeat", "skip"}[how]
		w.orders = append([]string{name}, w.orders...)
	case "run":
		w.run(id)
	case "result":
		w.take(id, Event{Kind: Resulted, End: end})
	case "answer":
		w.take(id, Event{Kind: Answered, End: end})
	case "file":
		end.Document = []byte(text)
		w.take(id, Event{Kind: Filed, End: end})
	case "end":
		end.Combined = true
		w.take(id, Event{Kind: Ended, End: end})
	case "pass":
		w.take(id, Event{Kind: Passing})
	case "taken", "refused":
		w.passed(id, words[0] == "taken")
	case "left":
		w.take(id, Event{Kind: Left})
	case "apart":
		var bytes int64
		_, err := fmt.Sscan(text, &bytes)
		check.NoError(t, err)
		w.take(id, Event{Kind: SetApart, Bytes: bytes})
	case "acked", "stored":
		i := slices.IndexFunc(w.loose, func(l loose) bool { return l.id == id && l.record == (words[0] == "stored") })
		check.AtLeast(check.Must(t), i, 0, "nothing is on its way for %v", words)
		w.land(i)
	case "tick":
		d, err := time.ParseDuration(string(id))
		check.NoError(t, err)
		w.now += d
		w.carry(w.table.Tick(w.now))
	case "stop":
		w.carry(w.table.Stop())
	case "commit":
		w.commit()
	case "disk":
		w.away = id == "away"
	case "close":
		w.close()
	case "kill":
		if id == "before" {
			w.before = text
			return nil
		}
		w.dead = true
	case "show":
		return []string{fmt.Sprintf("runs %d, elsewhere %d, acks %q, events %q, record %q", w.runs[id], w.elsewhere[id], w.acks[id], w.events[id], w.records[id])}
	default:
		t.Fatalf("unknown command %q", words[0])
	}
	if w.dead {
		w.before = ""
		w.kill()
		w.orders = append(w.orders, "the process is killed")
	}
	return w.orders
}
