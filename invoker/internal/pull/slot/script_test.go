package slot

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var rewrite = flag.Bool("rewrite", false, "write the results of the scripts anew; read the diff")

// TestSlotScripts runs the scripts of testdata. A line is a command, and the lines with a tab
// after it are the table's orders, each with the number of its slot. Slots and creations are
// numbered from 1. Times count from the last command.
//
//	new                                            starts with an empty table
//	create NAME [gpu] [retry N] [concurrency N] [revision R] [from HOST]; repeat
//	acquired SLOT [warm], refused SLOT ERROR, stored SLOT KEY, deleted SLOT KEY
//	pulled SLOT [AGE], missed SLOT empty|gone|mismatched, found SLOT [HOST]
//	ended SLOT TIME [broken] [unrun], lost SLOT, paused SLOT [failed]
//	counted SLOT N [failed], counted-open CREATION N
//	warm NAME [resident], cold NAME, adopt NAME, retire NAME REVISION
//	close, stop, open
//	wait TIME, tick [TIME], due                    due waits for the table's deadline
//	keep SLOT N [TIME], used SLOT                  set a field of the slot
//	show [SLOT]
//
// These commands are several events:
//
//	opened NAME [...]         a new slot has run once, and fetches
//	resting NAME              it was paused after that
//	short NAME                a new slot was refused for want of memory
//	exhaust SLOT              it is refused until it is gone
//	fetching NAME             a new slot of a GPU function fetches
//	begun NAME                the same, whatever the backlog
//	pull SLOT N TIME          it pulls up to N activations, which take so long
func TestSlotScripts(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txt")
	check.NoError(t, err)
	check.AtLeast(t, len(names), 3)
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
	var f *fixture
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "\t") {
			continue
		}
		fmt.Fprintln(&out, line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if line == "new" {
			f = newFixture(t)
			continue
		}
		for _, result := range f.command(line) {
			fmt.Fprintf(&out, "\t%s\n", result)
		}
		check.NoError(check.Must(t), f.t.check(), "%s", line)
	}
	return out.String()
}

// words are those of a command.
type words []string

func (w words) has(word string) bool { return slices.Contains(w, word) }

// at returns a word, "" if there is none.
func (w words) at(i int) string {
	if i >= len(w) {
		return ""
	}
	return w[i]
}

// after returns the word after another, "" if there is none.
func (w words) after(word string) string {
	i := slices.Index(w, word)
	if i < 0 {
		return ""
	}
	return w.at(i + 1)
}

// number reads a number, 0 for no word.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil && text != "" {
		panic(err)
	}
	return n
}

// duration reads a time, 0 for no word.
func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil && text != "" {
		panic(err)
	}
	return d
}

// options are those of the command create.
func options(w words) func(*Creation) {
	return func(c *Creation) {
		c.GPU, c.ContainerCreation.Retry = w.has("gpu"), number(w.after("retry"))
		c.Concurrency = max(1, number(w.after("concurrency")))
		if revision := w.after("revision"); revision != "" {
			c.Queue = activation.NewQueue("guest", c.Queue.Action, revision)
		}
		if host := w.after("from"); host != "" {
			c.Endpoint.Host = host
		}
	}
}

// command carries out a command, and returns its results and the table's orders.
func (f *fixture) command(line string) (results []string) {
	w := words(strings.Fields(line))
	switch w[0] {
	case "opened", "resting":
		f.open(w)
	case "short":
		f.create(w[1])
		f.t.Refused(f.now, f.newest(), activation.ResourceNotEnough, "full")
	case "fetching":
		f.create(w[1], options(words{"gpu"}))
		f.t.Stored(f.now, f.newest(), Existing)
	case "begun":
		c := f.create(w[1], options(words{"gpu", "retry", "5"}))
		f.t.CountedOpen(f.now, c.ID, 0, true)
		f.t.Stored(f.now, f.newest(), Existing)
	case "exhaust":
		began, n := f.now, 0
		for id := ID(number(w[1])); f.t.Has(id); n++ {
			f.due()
			f.t.Refused(f.now, id, activation.ResourceNotEnough, "full")
		}
		results = append(results, fmt.Sprintf("refused %d times in %v", n, f.now-began))
	case "pull":
		results = append(results, fmt.Sprintf("pulled %d", f.pull(f.t.get(ID(number(w[1]))), number(w[2]), duration(w[3]))))
		return results // the orders are fetches
	case "wait":
		f.now += duration(w[1])
	case "due":
		results = append(results, f.due())
	case "keep":
		f.t.get(ID(number(w[1]))).keep = Keep{Containers: number(w[2]), Time: duration(w.at(3))}
	case "used":
		f.t.get(ID(number(w[1]))).used = true
	case "show":
		results = append(results, f.show(ID(number(w.at(1)))))
	default:
		f.event(w)
	}
	for _, o := range f.t.Orders() {
		results = append(results, describe(o))
	}
	return results
}

// event gives one event to the table.
func (f *fixture) event(w words) {
	id, key := ID(0), map[string]Key{"warmed": Warmed}[w.at(2)]
	if n, err := strconv.Atoi(w.at(1)); err == nil {
		id = ID(n)
	}
	queue := creation(0, w.at(1), "1-a").Queue
	switch w[0] {
	case "create":
		f.create(w[1], options(w))
	case "repeat":
		f.t.Create(f.now, f.last)
	case "acquired":
		f.t.Acquired(f.now, id, w.has("warm"))
	case "refused":
		f.t.Refused(f.now, id, activation.CreationError(w[2]), "reason")
	case "stored":
		f.t.Stored(f.now, id, key)
	case "deleted":
		f.t.Deleted(f.now, id, key)
	case "pulled":
		f.t.Pulled(f.now, id, duration(w.at(2)), Keep{})
	case "missed":
		f.t.Missed(f.now, id, map[string]Miss{"empty": Empty, "gone": QueueGone, "mismatched": Mismatched}[w[2]])
	case "found":
		f.t.Found(f.now, id, activation.Endpoint{Host: w.at(2)})
	case "ended":
		f.t.Ended(f.now, id, duration(w[2]), !w.has("broken"), !w.has("unrun"))
	case "lost":
		f.t.Lost(f.now, id)
	case "paused":
		f.t.Paused(f.now, id, !w.has("failed"))
	case "counted":
		f.t.Counted(f.now, id, number(w[2]), !w.has("failed"))
	case "counted-open":
		f.t.CountedOpen(f.now, creation(int(id), "", "").ID, number(w[2]), true)
	case "warm":
		f.t.SetWarm(f.now, queue, true, w.has("resident"))
	case "cold":
		f.t.SetWarm(f.now, queue, false, false)
	case "adopt":
		f.made++
		f.t.Adopt(f.now, creation(f.made, w[1], "1-a"))
	case "retire":
		f.t.Retire(f.now, &activation.ContainerDeletion{Queue: creation(0, w[1], w[2]).Queue})
	case "close":
		f.t.Close(f.now)
	case "stop":
		f.t.Stop(f.now)
	case "open":
		f.t.Open()
	case "tick":
		f.t.Tick(f.now + duration(w.at(1)))
	default:
		f.Fatalf("no command %s", w[0])
	}
}

func (f *fixture) newest() ID { return f.t.slots[len(f.t.slots)-1].id }

// open has a new slot run once, and pauses it for the command resting.
func (f *fixture) open(w words) {
	f.create(w[1], options(w))
	id := f.newest()
	f.t.Acquired(f.now, id, false)
	f.t.Stored(f.now, id, Existing)
	f.t.Pulled(f.now, id, 0, Keep{})
	f.t.Ended(f.now, id, time.Second, true, true)
	if w[0] == "resting" {
		f.now += grace
		f.t.Missed(f.now, id, Empty)
		f.t.Paused(f.now, id, true)
		f.t.Stored(f.now, id, Warmed)
	}
}

// pull has a slot pull as many activations as it asks for. A mean of 0 means that none has
// ended.
func (f *fixture) pull(s *slot, most int, mean time.Duration) (n int) {
	f.t.load.add(s, -s.runs)
	s.mean = mean
	f.t.load.add(s, s.runs)
	for ; n < most && s.calls > 0; n++ {
		f.t.Pulled(f.now, s.id, 0, Keep{})
		f.t.Orders()
	}
	return n
}

// due advances the time to the table's next deadline.
func (f *fixture) due() string {
	at, ok := f.t.Deadline()
	if !ok {
		return "nothing is due"
	}
	text := fmt.Sprint("after ", at-f.now)
	f.now = at
	f.t.Tick(f.now)
	return text
}

// show describes a slot, or all for 0.
func (f *fixture) show(id ID) string {
	if s := f.t.get(id); s != nil {
		return fmt.Sprintf("calls %d, runs %d, scheduler %s, seeks %t", s.calls, s.runs, s.Endpoint.Host, f.t.Seeks(id))
	}
	st := f.t.Stats(f.now)
	return fmt.Sprintf("%d slots: opening %d MB, fetching %d, busy %d MB, idle %d MB, paused %d",
		f.t.Len(), st.OpeningMB, st.Fetching, st.BusyMB, st.IdleMB, st.Paused)
}

func describe(o Order) string {
	text := fmt.Sprint(o.Slot, " ", o.Do)
	switch o.Do {
	case Put, Delete:
		text += " " + o.Key.String()
	case Ack:
		if o.Error != "" {
			text += " " + string(o.Error)
		}
	case Fetch:
		if o.Warmed {
			text += " warmed"
		}
		if o.Ended {
			text += " " + o.Last.String()
		}
	}
	return text
}
