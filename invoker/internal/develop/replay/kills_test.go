package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// The modes in which rows of the table run.
var (
	embedded  = map[string]harness.Parts{"embedded": {}}
	inDocker  = map[string]harness.Parts{"embedded": {}, "docker": {Docker: true}}
	realToo   = map[string]harness.Parts{"embedded": {}, "real": {Apache: true, PouchDB: true}}
	scheduler = map[string]harness.Parts{"scheduler": {Scheduler: harness.Patient}}
	shipped   = map[string]harness.Parts{"scheduler-docker": {Apache: true, Docker: true, Scheduler: harness.Scheduled}}
)

// kill is the end of an invoker at a moment, and the start of the next invoker.
type kill struct {
	name     string
	modes    map[string]harness.Parts
	settings []string
	once     bool           // interrupted activations are not rerun
	prepare  func(*fixture) // before the first invoker starts
	before   func(*fixture) // with the first invoker, before activations are sent
	action   harness.Action // the default is caller
	calls    int            // activations that are sent
	running  int            // further runs that wait at the gate before the moment
	moment   func(*fixture) // waits for the moment; it may break a part
	end      func(*fixture) // ends the invoker; nil means that it lives on
	ended    func(*fixture) // after that, before the next invoker starts; it mends the part
	after    func(*fixture) // when every activation has its ack
	checks   []func(*fixture)
}

// kills is the table. In every row no activation may be lost.
var kills = []kill{
	{name: "while all run", modes: realToo, calls: inFlight, running: inFlight, end: killInvoker, checks: nothingLost},
	// Runs end by themselves there, so the kills meet them at any moment.
	{name: "again and again", modes: inDocker, before: fourKills, after: committed, checks: nothingLost},
	{name: "while Kafka is away", modes: realToo, once: true, calls: inFlight, running: inFlight,
		moment: allInJournal, end: killInvoker, ended: (*fixture).kafkaBack, checks: resultsAcked(1)},
	{name: "stopped while Kafka is away", modes: embedded, once: true, calls: inFlight, running: inFlight,
		settings: []string{"CONFIG_whisk_gpu_flushDeadline=3 seconds"},
		moment:   allRecorded, end: stopInVain, ended: (*fixture).kafkaBack, checks: resultsAcked(inFlight)},
	{name: "while the database is away", modes: embedded, once: true, settings: []string{"CONFIG_whisk_gpu_records_spool=none"},
		before: databaseGoes, calls: inFlight, moment: allAcked, end: killInvoker, ended: databaseBack, after: allRecordedAfterOneMore, checks: lostNothingRanOnce},
	{name: "stopped while the database is away", modes: embedded, once: true,
		before: databaseGoes, calls: inFlight, moment: allAcked, end: stopInvoker, ended: databaseBack, after: allRecordedAfterOneMore, checks: lostNothingRanOnce},
	{name: "lives on while the database is away", modes: embedded, once: true,
		before: databaseGoes, calls: inFlight, moment: allAcked, ended: databaseBack, after: allRecordedAfterOneMore, checks: lostNothingRanOnce},
	{name: "stopped while all run", modes: embedded, calls: inFlight, running: inFlight,
		end: stopInvoker, ended: (*fixture).nothingLost, after: oneMore, checks: lostNothingRanOnce},
	{name: "stopped while one runs and the others wait for its container", modes: embedded, action: oneAtATime, calls: inFlight, running: 1,
		settings: []string{"CONFIG_whisk_concurrencyLimit_max=1", "CONFIG_whisk_containerPool_userMemory=256m"},
		end:      stopInvoker, after: oneMore, checks: lostNothingRanOnce},
	{name: "while many wait for a GPU", modes: embedded, once: true, action: patientOnGPU,
		settings: []string{"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_shim_library=none", "CONFIG_whisk_timeLimit_max=1 hour", "CONFIG_whisk_gpu_backlogSize=1g"},
		before:   sendBacklog, running: onDevice, moment: allWait, end: killInvoker, after: nothingInFlight, checks: backlogServed},
	// Functions hold device memory, on the device and moved out.
	{name: "while GPU memory is resident", modes: embedded, prepare: func(w *fixture) { w.putGPUFunctions(residents...) },
		before: fillDevice, running: 1, end: killInvoker, after: useAllTwice, checks: []func(*fixture){residentsIntact, (*fixture).noStrays, noSockets}},
	{name: "while pulled activations run and wait", modes: scheduler, action: rerunnable,
		prepare: func(w *fixture) { w.Scheduler.SetLimit("guest", 3) }, calls: 5, running: 3, end: killInvoker, after: oneInvoker, checks: allSucceeded},
	{name: "stopped before its deadline", modes: scheduler, settings: []string{"CONFIG_whisk_gpu_drainDeadline=1 millisecond"},
		action: rerunnable, calls: 1, running: 1, end: stopAmidRuns, checks: allSucceeded},
	{name: "stopped while activations wait for a GPU", modes: scheduler, settings: []string{"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_shim_library=none"},
		before: invokeTwoOnGPU, running: 1, moment: allPulled, end: stopGivingBack, checks: allSucceeded},
	// The host keeps the activations that it has pulled; the others go to another host.
	{name: "while another GPU host works", modes: scheduler, settings: []string{"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_shim_library=none"},
		before: holdFirstHost, action: rerunnableOnGPU, calls: 6, running: 2, moment: otherHostAnswers, end: killInvoker, after: otherHostEnds, checks: allSucceeded},
	// Idle containers are the next process's, with keys on its lease. An image that cannot be
	// pulled is the developer's error, and is not tried all the time.
	{name: "under load with idle containers", modes: shipped,
		settings: []string{"CONFIG_whisk_containerProxy_timeouts_pauseGrace=1 second", "CONFIG_whisk_containerPool_userMemory=4096m"},
		prepare:  func(w *fixture) { w.Scheduler.SetLimit("guest", 6) }, // so that there is memory for the idle one
		before:   leaveIdle, action: alone("busy", 256), calls: 36, moment: allContainersRun, end: killInvoker, after: idleAdopted,
		checks: []func(*fixture){func(w *fixture) { w.allEnded(2) }}}, // an ack may be sent, and not be known to be
}

// TestKills ends an invoker at a moment, starts the next invoker, and checks the acks and
// the records of all activations.
func TestKills(t *testing.T) {
	t.Parallel()
	for _, k := range kills {
		for mode, parts := range k.modes {
			t.Run(k.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				parts.Settings = k.settings
				w := newFixture(t, parts)
				w.shipped = parts.Scheduler != nil && parts.Docker
				k.run(w)
			})
		}
	}
}

func (k kill) run(w *fixture) {
	do := func(step func(*fixture)) {
		if step != nil {
			step(w)
		}
	}
	w.Once = k.once
	if k.action.Name == "" {
		k.action = caller
	}
	w.Put(k.action)
	w.Gate = w.NewGate()
	do(k.prepare)
	w.begin()
	do(k.before)
	if k.calls > 0 {
		w.Invoke(k.calls, harness.Message{Action: k.action.Name})
	}
	w.Gate.Await(k.running)
	do(k.moment)
	do(k.end)
	w.Gate.Open()
	do(k.ended)
	if k.end != nil {
		w.begin()
	}
	if w.Scheduler == nil {
		w.AwaitSlot(w.IDs...)
	} else {
		w.settled(w.IDs)
	}
	do(k.after)
	w.invoker.Terminate(w.T)
	for _, c := range k.checks {
		c(w)
	}
}

// Ends of an invoker.

func killInvoker(w *fixture) { w.invoker.Kill() }

// stopInvoker asks the invoker to stop and then lets the runs end.
func stopInvoker(w *fixture) {
	check.NoError(w.T, w.invoker.Cmd.Process.Signal(os.Interrupt))
	w.Gate.Open()
	check.NoError(w.T, w.invoker.AwaitEnd())
}

// stopInVain stops an invoker that cannot commit, so it ends with an error.
func stopInVain(w *fixture) { _ = w.invoker.Stop(os.Interrupt) }

// stopAmidRuns stops the invoker while its runs do not end.
func stopAmidRuns(w *fixture) { check.NoError(w.T, w.invoker.Stop(os.Interrupt)) }

// stopGivingBack asks the invoker to stop, and lets its runs end when the scheduler has
// waiting activations back.
func stopGivingBack(w *fixture) {
	check.NoError(w.T, w.invoker.Cmd.Process.Signal(os.Interrupt))
	w.Until("waiting activations are given back", func() string {
		if seen, _ := w.Scheduler.Seen(); seen.Rescheduled == 0 {
			return "none is"
		}
		return ""
	})
	w.Gate.Open()
	check.NoError(w.T, w.invoker.AwaitEnd())
}

// Steps and checks of the rows.

var (
	nothingLost        = []func(*fixture){(*fixture).nothingLost}
	lostNothingRanOnce = []func(*fixture){(*fixture).nothingLost, (*fixture).ranOnce}
)

// fourKills kills four invokers at moments at which some activations have ended, and
// starts a fifth.
func fourKills(w *fixture) {
	w.Gate.Open()
	var sent [][]string
	for round := range 4 {
		ids := w.call(inFlight)
		w.AwaitSlot(ids[:1+round*inFlight/5]...)
		if sent = append(sent, ids); round >= 2 {
			w.AwaitSlot(sent[round-2]...) // a third end under it would be its last (maxAttempts)
		}
		w.invoker.Kill()
		w.begin()
	}
}

func committed(w *fixture) { w.Until("the committed position", w.behind) }

// kafkaGoes makes Kafka unreachable and then lets the runs end.
func (w *fixture) kafkaGoes() {
	check.NoError(w.T, w.Broker.Kill())
	w.Gate.Open()
}

func (w *fixture) kafkaBack() { check.NoError(w.T, w.Broker.Start()) }

func allInJournal(w *fixture) {
	w.kafkaGoes()
	w.invoker.Admin.Await(w.T, "the journal has all ends", func(s harness.Status) bool { return s.State.Journal.Unacknowledged == inFlight })
}

func allRecorded(w *fixture) {
	w.kafkaGoes()
	w.awaitRecords(w.IDs)
}

// resultsAcked checks that nothing ran again, and that each activation has its record and
// an ack with its result, and at most the given number.
func resultsAcked(most int) []func(*fixture) {
	return []func(*fixture){(*fixture).ranOnce, (*fixture).hasResults, (*fixture).noStrays, func(w *fixture) {
		results := map[string]int{}
		for _, r := range w.Recording.ToTheEnd() {
			check.That(w.T, !strings.Contains(r.Value, "The invoker ended"), "an ack reports an interruption: %.300s", r.Value)
			if r.IsAck() && strings.Contains(r.Value, `"result":{"n":`) {
				results[r.ActivationID()]++
			}
		}
		for i, id := range w.IDs {
			check.AtLeast(w.T, results[id], 1, "acks that have the result of activation %d", i+1)
			check.AtMost(w.T, results[id], most, "acks that have the result of activation %d", i+1)
		}
	}}
}

// databaseGoes makes the database unreachable when the invoker has cached the action.
func databaseGoes(w *fixture) {
	w.Gate.Open()
	w.AwaitSlot(w.call(1)...)
	w.awaitRecords(w.IDs)
	w.Store.Shut()
}

func databaseBack(w *fixture) { w.Store.Open() }

func allAcked(w *fixture) { w.AwaitSlot(w.IDs...) }

// oneAtATime is caller with one run in a container.
var oneAtATime = func() harness.Action {
	a := caller
	a.Concurrency = 1
	return a
}()

func oneMore(w *fixture) { w.AwaitSlot(w.call(1)...) }

func allRecordedAfterOneMore(w *fixture) {
	oneMore(w)
	w.awaitRecords(w.IDs)
}

// onDevice is the default number of GPU runs at a time.
const onDevice = 2

// patientOnGPU is caller with a GPU; a large backlog takes minutes.
var patientOnGPU = func() harness.Action {
	a := caller
	a.Annotations, a.Timeout = map[string]any{"provide-api-key": false, "gpu": true}, time.Hour
	return a
}()

// sendBacklog sends 2,000 activations; GPUWHISK_BACKLOG sets another number.
func sendBacklog(w *fixture) { w.call(harness.Number(w.T, "GPUWHISK_BACKLOG", 2000)) }

// whileBacklog waits for a state, the longer the more activations there are.
func (w *fixture) whileBacklog(what string, want func(harness.Status) bool) {
	w.invoker.Admin.AwaitWithin(w.T, peertest.WaitLimit+time.Duration(len(w.IDs))*10*time.Millisecond, what, want)
}

func allWait(w *fixture) {
	w.whileBacklog("all activations wait", func(s harness.Status) bool { return s.Work.Backlog.Activations == len(w.IDs) })
}

func nothingInFlight(w *fixture) {
	w.whileBacklog("no activation waits", func(s harness.Status) bool { return s.Work.InFlight == 0 })
}

// backlogServed checks that each activation was served once. The records of the running
// activations report an interruption.
var backlogServed = []func(*fixture){(*fixture).ranOnce, func(w *fixture) {
	interrupted := 0
	for i, id := range w.IDs {
		a, err := w.answer(id)
		check.NoError(w.T, err, "activation %d", i+1)
		switch r := a.Result; {
		case r.N == i+1:
		case strings.HasPrefix(r.Error, "The invoker ended while the action ran."):
			interrupted++
		default:
			w.T.Errorf("activation %d: record %s", i+1, w.StoredRecord(id))
		}
	}
	check.Equal(w.T, interrupted, onDevice)
	w.Recording.ToTheEnd()
	for _, id := range w.IDs {
		check.Equal(w.T, w.Recording.Completed(id), 1, "times that activation %s freed its slot", id)
	}
	w.nothingLeft()
}}

// residents are functions of which two fit on the device together.
var residents = []string{"alpha", "beta", "gamma"}

// fillDevice runs each function, and begins another run of the first.
func fillDevice(w *fixture) {
	gate := w.Gate
	w.Gate = nil
	for _, name := range residents {
		w.AwaitSlot(w.use(name))
	}
	w.Gate = gate
	w.use(residents[0])
}

func useAllTwice(w *fixture) {
	for range 2 {
		for _, name := range residents {
			w.AwaitSlot(w.use(name))
		}
	}
}

// residentsIntact checks that the interrupted run was rerun in a new container, and that
// the later runs found their memory.
func residentsIntact(w *fixture) {
	caught := w.IDs[len(residents)]
	w.ran(caught, 1)
	runs := map[string]int{residents[0]: 1}
	for i, id := range w.IDs[len(residents)+1:] {
		name := residents[i%len(residents)]
		runs[name]++
		w.ran(id, runs[name])
	}
}

func noSockets(w *fixture) {
	left, _ := filepath.Glob(filepath.Join(w.Dir, "processes", "*", "shim", "*"))
	check.Equal(w.T, len(left), 0, "sockets are left: %v", left)
}
