package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// world is everything around a table: a journal, Kafka, a database, schedulers and other
// invokers. A kill keeps only the durable part.
type world struct {
	table *Table
	cfg   Config
	now   time.Duration
	disk  bool // there is a journal
	away  bool // its disk takes no start

	// Durable.
	messages []*message
	log      map[activation.ID]*entry
	commits  map[activation.ID]commit // in the metadata of the committed offset
	acks     map[activation.ID][]string
	events   map[activation.ID][]string
	records  map[activation.ID]string

	// Seen from outside.
	runs, elsewhere, kills map[activation.ID]int

	// Volatile.
	live    map[activation.ID]*Activation
	local   map[activation.ID]commit // not committed yet
	loose   []loose                  // sent, and not confirmed
	ran     map[activation.ID]bool
	passing map[activation.ID]bool
	orders  []string // for scripts
	dies    func() bool
	before  string // the process dies before this order
	dead    bool
}

// message is an activation as its controller or its scheduler sends it.
type message struct {
	id                               activation.ID
	blocking, rerun, fetched, silent bool
}

// entry is the journal's knowledge of an activation.
type entry struct {
	message, begun, offered, completed bool
	running                            bool // in this process
	attempts                           int
	end                                string
}

// commit is the feed's knowledge of an activation.
type commit struct {
	completed     bool
	mark, stopped Mark
	running       bool // marked in this process
}

// loose is an ack or a record on its way.
type loose struct {
	id     activation.ID
	text   string
	record bool
}

func newWorld(cfg Config, disk bool) *world {
	w := &world{
		cfg: cfg, disk: disk, log: map[activation.ID]*entry{}, commits: map[activation.ID]commit{},
		acks: map[activation.ID][]string{}, events: map[activation.ID][]string{}, records: map[activation.ID]string{},
		runs: map[activation.ID]int{}, elsewhere: map[activation.ID]int{}, kills: map[activation.ID]int{},
		dies: func() bool { return false },
	}
	w.begin()
	return w
}

// begin starts a process.
func (w *world) begin() {
	w.table, w.now, w.dead = New(w.cfg), 0, false
	w.live, w.local, w.loose = map[activation.ID]*Activation{}, maps.Clone(w.commits), nil
	w.ran, w.passing = map[activation.ID]bool{}, map[activation.ID]bool{}
}

// kill ends the process and starts the next one.
func (w *world) kill() {
	for id, e := range w.log {
		if e.running {
			e.running = false
			e.attempts++
			w.kills[id]++
		}
	}
	for id, c := range w.commits {
		if c.running {
			c.running, c.stopped = false, c.mark
			w.commits[id] = c
			w.kills[id]++
		}
	}
	w.begin()
}

// close ends the process in order: no run counts as a killed one.
func (w *world) close() {
	w.carry(w.table.Stop())
	if w.dead {
		return
	}
	for _, e := range w.log {
		e.running = false
	}
	for id, c := range w.local {
		c.mark, c.running = c.stopped, false
		w.local[id] = c
	}
	w.commit()
	w.begin()
}

// commit commits the feed's knowledge.
func (w *world) commit() { maps.Copy(w.commits, w.local) }

func (w *world) find(id activation.ID) *message {
	i := slices.IndexFunc(w.messages, func(m *message) bool { return m.id == id })
	return w.messages[i]
}

// history is the knowledge of earlier processes.
func (w *world) history(id activation.ID) History {
	h := Marked(w.commits[id].mark)
	h.Completed = w.commits[id].completed
	e := w.log[id]
	if e == nil {
		return h
	}
	j := History{Begun: e.begun || e.offered, Attempts: e.attempts, Completed: e.completed}
	if e.end != "" && !e.completed {
		j.Ended = recordOf(id, e.end)
	}
	return h.Merge(j)
}

// entry is the journal's entry of an activation, made if it is missing.
func (w *world) entry(id activation.ID) *entry {
	if w.log[id] == nil {
		w.log[id] = &entry{}
	}
	return w.log[id]
}

// deliver gives a message to the table, and reports how it goes on.
func (w *world) deliver(m *message) (Recovery, bool) {
	if !w.table.Reserve() {
		return 0, false
	}
	h := w.history(m.id)
	w.live[m.id] = w.table.Deliver(Arrival{ID: m.id, Blocking: m.blocking, Journaled: w.disk, Fetched: m.fetched, History: h})
	how := h.Recovery(m.rerun)
	switch how {
	case Skip:
		w.take(m.id, Event{Kind: Skipped})
	case Interrupt, GiveUp:
		w.take(m.id, Event{Kind: Ended, End: End{Record: recordOf(m.id, "interrupted"), Combined: true, Store: true, Earlier: true}})
	case Repeat:
		w.take(m.id, Event{Kind: Ended, End: End{Record: h.Ended, Combined: true, Store: true, Earlier: true, Repeated: true}})
	case Run, RunAgain:
		if m.silent {
			w.take(m.id, Event{Kind: Ended, End: End{Record: recordOf(m.id, "blocked"), Combined: true, Silent: true}})
		}
	}
	return how, true
}

// take reports an event and carries out the orders.
func (w *world) take(id activation.ID, e Event) {
	if e.Activation = w.live[id]; e.Activation == nil || w.dead {
		return
	}
	w.carry(w.table.Take(w.now, e))
}

// carry carries out orders. The process may die before each. The entries of the journal, from
// AppendBegin to AppendForget, come before the messages, from SendResult to Pass.
func (w *world) carry(orders []Order) {
	sends := false
	for _, o := range orders {
		if w.dead || w.dies() || words[o.Do] == w.before {
			w.dead = true
			return
		}
		sends = sends || o.Do >= SendResult && o.Do <= Pass
		if sends && o.Do <= AppendForget && o.Do != AppendComplete {
			panic(fmt.Sprintf("order %d is an entry after a message", o.Do))
		}
		w.carryOut(o)
	}
}

func (w *world) carryOut(o Order) {
	id, text := o.Activation.ID, ""
	if o.End.Record != nil {
		text = string(o.End.Record.Response.Result)
	}
	w.orders = append(w.orders, strings.TrimSpace(words[o.Do]+" "+string(id)+shown(o, text)))
	if (o.Do == Store || o.Do == AppendEnd) && o.End.Store && o.End.Document == nil && len(o.End.Record.Logs) == 0 {
		panic("the log lines of a stored record are lost")
	}
	switch o.Do {
	case AppendBegin:
		if w.away && !w.find(id).fetched {
			w.carry(w.table.Take(w.now, Event{Kind: Unwritten, Activation: o.Activation}))
			return
		}
		e := w.entry(id)
		e.begun, e.running = true, true
		e.attempts = max(e.attempts, o.Activation.History.Attempts)
	case AppendPass:
		w.entry(id).offered = true
	case AppendRefused:
		w.entry(id).offered = false
	case AppendEnd:
		w.entry(id).end = text
		w.table.Take(w.now, Event{Kind: Persisted, Activation: o.Activation, Version: o.Version})
	case AppendComplete:
		e := w.entry(id)
		e.completed, e.running, e.end = true, false, ""
	case AppendForget:
		delete(w.log, id)
	case CommitBegin:
		c := commit{running: true}
		c.mark, c.stopped = o.Activation.History.BeginMarks()
		w.local[id] = c
		w.commit()
	case SendResult, SendCombined:
		if !o.Activation.Blocking || o.End.Silent {
			text = ""
		}
		w.loose = append(w.loose, loose{id: id, text: words[o.Do][5:] + " " + text})
	case SendCompletion:
		w.loose = append(w.loose, loose{id: id, text: "completion "})
	case SendEvent:
		w.events[id] = append(w.events[id], text)
	case Store:
		w.loose = append(w.loose, loose{id: id, text: text, record: true})
	case Pass:
		w.passing[id] = true
	case Commit:
		w.local[id] = commit{completed: true}
		delete(w.live, id)
	}
}

// words are the names of orders in scripts.
var words = map[OrderKind]string{
	AppendBegin: "append begin", AppendPass: "append pass", AppendRefused: "append refused", AppendEnd: "append end",
	AppendComplete: "append complete", AppendForget: "append forget", CommitBegin: "commit begin", SendResult: "send result",
	SendEvent: "send event", SendCompletion: "send completion", SendCombined: "send combined", Store: "store", Pass: "pass",
	Commit: "commit", Report: "report", Release: "release",
}

func shown(o Order, text string) string {
	switch o.Do {
	case AppendEnd, SendResult, SendEvent, SendCombined, Store:
		return ": " + text
	}
	return ""
}

// run begins to run an activation, once in a process.
func (w *world) run(id activation.ID) {
	w.take(id, Event{Kind: Begun})
	if a := w.live[id]; !w.dead && a != nil && a.Begun() && !w.ran[id] {
		w.ran[id] = true
		w.runs[id]++
	}
}

// land has the broker or the database take something on its way, and reports that.
func (w *world) land(i int) {
	l := w.loose[i]
	w.loose = slices.Delete(w.loose, i, i+1)
	if l.record {
		if _, ok := w.records[l.id]; !ok {
			w.records[l.id] = l.text
		}
		w.confirm(l.id, Stored)
		return
	}
	w.acks[l.id] = append(w.acks[l.id], l.text)
	w.confirm(l.id, Acked)
}

func (w *world) confirm(id activation.ID, k EventKind) {
	if w.dies() {
		w.dead = true
		return
	}
	w.take(id, Event{Kind: k})
}

// passed has another invoker take an activation, or refuse it.
func (w *world) passed(id activation.ID, takes bool) {
	if !w.passing[id] {
		return
	}
	delete(w.passing, id)
	if !takes {
		w.take(id, Event{Kind: Refused})
		return
	}
	w.elsewhere[id]++
	w.confirm(id, Passed)
}

func recordOf(id activation.ID, text string) *activation.Record {
	return &activation.Record{ActivationID: id, Response: activation.Response{Result: []byte(text)}, Logs: []string{"a line"}}
}

// done reports whether an activation is completed for the next process.
func (w *world) done(id activation.ID) bool {
	return w.commits[id].completed || w.log[id] != nil && w.log[id].completed
}

// final reports whether the controller knows the end.
func (w *world) final(id activation.ID) bool {
	return slices.ContainsFunc(w.acks[id], func(s string) bool { return !strings.HasPrefix(s, "result") })
}

// check returns which promise is broken, or nil.
func (w *world) check() error {
	for _, m := range w.messages {
		if err := w.checkOne(m); err != nil {
			return fmt.Errorf("activation %s: %w", m.id, err)
		}
	}
	return w.checkTable()
}

func (w *world) checkOne(m *message) error {
	id := m.id
	if n := w.runs[id] + w.elsewhere[id]; n > 1 && !m.rerun {
		return fmt.Errorf("it ran %d times", n)
	}
	if n := w.kills[id]; n > maxAttempts {
		return fmt.Errorf("it was running in %d processes that were killed", n)
	}
	if w.done(id) && w.elsewhere[id] == 0 {
		if !w.final(id) {
			return fmt.Errorf("it is completed, and its controller has %q", w.acks[id])
		}
		if w.records[id] == "" && !m.silent {
			return fmt.Errorf("it is completed, and has no record")
		}
	}
	if e := w.log[id]; m.fetched && w.elsewhere[id] == 0 && (e == nil || !e.message) {
		return fmt.Errorf("it was fetched, and nobody has it")
	}
	if !w.disk {
		return nil
	}
	ends := map[string]bool{}
	for _, text := range w.events[id] {
		ends[text] = true
	}
	for _, text := range w.acks[id] {
		if _, end, _ := strings.Cut(text, " "); end != "" {
			ends[end] = true
		}
	}
	if text := w.records[id]; text != "" && (len(ends) > 0) {
		ends[text] = true
	}
	if len(ends) > 1 {
		return fmt.Errorf("it has the ends %q: acks %q, events %q, record %q", slices.Sorted(maps.Keys(ends)), w.acks[id], w.events[id], w.records[id])
	}
	return nil
}

// checkTable checks the table's own sums.
func (w *world) checkTable() error {
	if w.dead {
		return nil
	}
	common, taken, gpu, unsafe := 0, 0, 0, 0
	for _, a := range w.live {
		if a.Unsafe() {
			unsafe++
		}
		if a.finished() {
			continue
		}
		taken++
		if a.apart {
			gpu++
		} else {
			common++
		}
	}
	t := w.table
	n, bytes := t.Backlog()
	if t.common != common || t.Unfinished() != taken || n != gpu || (bytes == 0) != (gpu == 0) || t.unsafe.Len() != unsafe {
		return fmt.Errorf("permits %d, %d, %d and %d ends; want %d, %d, %d and %d", t.common, t.Unfinished(), n, t.unsafe.Len(), common, taken, gpu, unsafe)
	}
	for e := t.unsafe.Front(); e != nil; e = e.Next() {
		a := e.Value.(*Activation)
		if a.listed != e || a.stage < resulted || a.stage > filed {
			return fmt.Errorf("activation %s is in the list of unsafe ends, stage %d", a.ID, a.stage)
		}
	}
	return nil
}
