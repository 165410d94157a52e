package scheduler_test

import (
	"container/heap"
	"slices"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/scheduler"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

const gib = int64(1) << 30

// world is an invoker with its devices, as a scheduler sees them. The world determines the
// memory of containers and the duration of runs. It reports the answer, the free token and the
// free container of a run as events at different times. It counts service as the time for
// which tokens are really held.
type world struct {
	t      *testing.T
	c      scheduler.Config
	s      *scheduler.Scheduler
	policy scheduler.Policy
	now    time.Duration

	functions []*worldFunction
	byID      map[sched.FlowID]*worldFunction
	calls     map[uint64]*call
	boxes     map[scheduler.Container]*box
	id        uint64
	timers    worldTimers
	set       int
	lost      map[int]bool
	pairs     []*pair
	unequal   []*pair

	logs     time.Duration               // from the answer of a run until its logs are read
	hostMB   int                         // host memory for containers; 0 for no limit
	together bool                        // the token and the container of a run become free at once
	hangs    func(f *worldFunction) bool // whether a removal never ends
	unused   []time.Duration             // time in which a token is free and a queued flow fits, by device
	conserve bool                        // count that
	bytesPer float64                     // of the link, in a second
}

// worldFunction is a function whose callers keep some calls queued.
type worldFunction struct {
	namespace, name string
	memory, hint    int64
	hostMB          int // host memory of a container
	weight          float64
	run             time.Duration
	init            time.Duration
	keep            int
	on              func(now time.Duration) bool // whether its callers call; nil for always
	end             func(k int) ending           // how its kth run ends

	submitted, started, done, refused, failed int
	queued                                    int
	held                                      time.Duration // service of runs that have ended
	longest                                   time.Duration // of one run
	flying                                    map[uint64]time.Duration
}

// ending is how a run ends.
type ending int

const (
	ok       ending = iota
	initFail        // its container cannot be initialised
	runFail         // its container cannot be used afterwards
	dies            // its container ends by itself
)

type call struct {
	f         *worldFunction
	k         int
	container scheduler.Container
	device    int
	started   time.Duration
	ran       time.Duration
	setup     time.Duration
	cold      bool
	begun     bool
	over      bool
}

type box struct {
	f                            *worldFunction
	device, hostMB               int
	context, allocated, resident int64
	made                         bool
	epoch                        uint64
}

type worldTimer struct {
	at  time.Duration
	seq int
	do  func()
}

type worldTimers []worldTimer

func (h worldTimers) Len() int { return len(h) }
func (h worldTimers) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h worldTimers) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *worldTimers) Push(x any)   { *h = append(*h, x.(worldTimer)) }
func (h *worldTimers) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// pair is two functions of equal needs. The bound on their gap holds while both have work
// queued and neither pauses.
type pair struct {
	a, b        *worldFunction
	both        bool
	least, most float64
	ratio       float64 // of the largest gap to the bound
	gap, bound  float64 // in seconds
}

// worldConfig is a scheduler of devices with so much memory.
func worldConfig(policy string, tokens, pool int, memory ...int64) scheduler.Config {
	cfg, _ := sched.Defaults(policy)
	rule := gpu.LRU
	if info, _ := sched.PolicyNamed(policy); info.Demand {
		rule = gpu.DemandAware
	}
	c := scheduler.Config{
		Policy: policy, Sched: cfg, Tokens: gpu.TokensConfig{Max: tokens}, Pool: gpu.PoolConfig{Size: pool, Rule: rule},
		Context: 400 << 20, Memory: gib, AckTimeout: 10 * time.Second, DeviceTimeout: 5 * time.Minute,
		PrefetchActive: true, Faults: true, IdleTimeout: 10 * time.Minute,
	}
	for i, bytes := range memory {
		c.Devices = append(c.Devices, gpu.Device{Index: i, MemoryBytes: bytes, Simulated: true})
	}
	return c
}

// always is a function whose callers always have calls queued.
func always(name string, run time.Duration, memory int64) *worldFunction {
	return &worldFunction{namespace: "ns", name: name, memory: memory, hint: memory, weight: 1, run: run, init: 2 * time.Second, keep: 20}
}

func newWorld(t *testing.T, c scheduler.Config, functions ...*worldFunction) *world {
	w := &world{
		t: t, c: c, byID: map[sched.FlowID]*worldFunction{}, calls: map[uint64]*call{}, boxes: map[scheduler.Container]*box{},
		lost: map[int]bool{}, unused: make([]time.Duration, len(c.Devices)), bytesPer: 6e9,
	}
	w.c.NewPolicy = func(name string, cfg sched.Config, view sched.View) (scheduler.Policy, error) {
		p, err := sched.New(name, cfg, view)
		w.policy = p
		return &observed{p, w}, err
	}
	var err error
	if w.s, err = scheduler.New(w.c); err != nil {
		t.Fatal(err)
	}
	for _, f := range functions {
		w.add(f)
	}
	return w
}

func (w *world) add(f *worldFunction) {
	f.flying = map[uint64]time.Duration{}
	if f.end == nil {
		f.end = func(int) ending { return ok }
	}
	w.functions = append(w.functions, f)
	w.byID[f.id()] = f
}

func (f *worldFunction) id() sched.FlowID {
	return sched.FlowID{Namespace: f.namespace, Function: f.name}
}

// watch compares functions of equal needs, each with each.
func (w *world) watch(functions ...*worldFunction) {
	for i, a := range functions {
		for _, b := range functions[:i] {
			w.pairs = append(w.pairs, &pair{a: a, b: b})
		}
	}
}

// observed is a policy whose grants and ends the world counts.
type observed struct {
	scheduler.Policy
	w *world
}

func (o *observed) Next(now time.Duration) (sched.Choice, bool) {
	c, ok := o.Policy.Next(now)
	if ok {
		f := o.w.calls[c.Invocation].f
		f.flying[c.Invocation] = o.w.now
		f.longest = max(f.longest, time.Duration(float64(c.Charged)*f.weight))
	}
	return c, ok
}

func (o *observed) release(id uint64) {
	f := o.w.calls[id].f
	took := o.w.now - f.flying[id]
	delete(f.flying, id)
	f.held += took
	f.longest = max(f.longest, took)
}

func (o *observed) Done(now time.Duration, id uint64, u sched.Usage) {
	o.release(id)
	o.Policy.Done(now, id, u)
}

func (o *observed) Undo(now time.Duration, id uint64) {
	o.release(id)
	o.Policy.Undo(now, id)
}

func (o *observed) Abandon(now time.Duration, id uint64) {
	o.release(id)
	o.Policy.Abandon(now, id)
}

func (w *world) after(d time.Duration, do func()) {
	w.set++
	heap.Push(&w.timers, worldTimer{w.now + d, w.set, do})
}

// tell passes an event to the scheduler and carries out its orders.
func (w *world) tell(e scheduler.Event) {
	e.At = w.now
	w.s.Take(e)
	for _, o := range w.s.Ready() {
		w.obey(o)
	}
}

func (w *world) submit(f *worldFunction) {
	w.id++
	w.calls[w.id] = &call{f: f}
	f.submitted++
	f.queued++
	w.tell(scheduler.Event{Kind: scheduler.Submitted, Invocation: w.id, Function: &scheduler.Function{
		Flow: f.id(), Key: "r1", Memory: f.hint, Weight: f.weight, HostMB: f.hostMB,
	}})
}

// callEvery calls a function again and again, whatever its queue is.
func (w *world) callEvery(f *worldFunction, interval time.Duration) {
	w.after(interval, func() {
		w.submit(f)
		w.callEvery(f, interval)
	})
}

func (w *world) obey(o scheduler.Order) {
	switch o.Do {
	case scheduler.Create:
		w.boxes[o.Container] = &box{f: w.byID[o.Flow], device: o.Device, hostMB: o.HostMB}
	case scheduler.Start:
		w.start(o)
	case scheduler.Move:
		w.move(o)
	case scheduler.Remove:
		if w.hangs != nil && w.hangs(w.boxes[o.Container].f) {
			return
		}
		w.after(10*time.Millisecond, func() {
			delete(w.boxes, o.Container)
			w.s.Take(scheduler.Event{At: w.now, Kind: scheduler.Removed, Container: o.Container})
			w.reportHost()
		})
	case scheduler.Refuse:
		c := w.calls[o.Invocation]
		c.f.refused++
		if !c.begun {
			c.f.queued--
		}
		delete(w.calls, o.Invocation)
	}
}

// reportHost reports the host memory that is left, if it is limited.
func (w *world) reportHost() {
	free := w.hostMB
	for _, b := range w.boxes {
		free -= b.hostMB
	}
	if w.hostMB == 0 {
		free = 1 << 30
	}
	w.tell(scheduler.Event{Kind: scheduler.HostReported, Host: scheduler.HostMemory{Free: free}})
}

func (w *world) start(o scheduler.Order) {
	c, b, id := w.calls[o.Invocation], w.boxes[o.Container], o.Invocation
	if c.begun {
		w.t.Errorf("at %s: invocation %d is started twice", w.now, id)
	}
	f := c.f
	f.queued--
	c.k, c.begun, c.container, c.device, c.started = f.started, true, o.Container, o.Device, w.now
	f.started++
	if b.made {
		missing := b.allocated - b.resident
		b.resident = b.allocated
		w.after(time.Duration(float64(missing)/w.bytesPer*1e9), func() { w.run(id) })
		return
	}
	c.cold, b.context = true, w.c.Context
	w.after(f.init, func() {
		if w.boxes[o.Container] != b || w.lost[b.device] {
			w.answer(id, false)
			return
		}
		w.tell(scheduler.Event{Kind: scheduler.Created, Container: o.Container})
		if f.end(c.k) == initFail {
			w.answer(id, false)
			return
		}
		b.made, b.allocated, b.resident = true, f.memory, f.memory
		w.report(o.Container)
		w.tell(scheduler.Event{Kind: scheduler.Initialized, Container: o.Container})
		w.run(id)
	})
}

func (w *world) report(id scheduler.Container) {
	if b := w.boxes[id]; b != nil {
		w.tell(scheduler.Event{Kind: scheduler.MemoryReported, Container: id, PID: 1, Usage: gpu.Usage{Allocated: b.allocated, Resident: b.resident, Context: b.context}})
	}
}

func (w *world) run(id uint64) {
	c := w.calls[id]
	if c == nil {
		return
	}
	c.ran = w.now
	if c.cold {
		c.setup = w.now - c.started
	}
	w.after(c.f.run, func() { w.answer(id, c.f.end(c.k) == ok) })
}

// answer ends a run; its token and its container are free when its logs are read.
func (w *world) answer(id uint64, keep bool) {
	c := w.calls[id]
	if c == nil || c.over {
		return
	}
	c.over = true
	keep = keep && !w.lost[c.device]
	ran, setup := time.Duration(0), w.now-c.started
	if c.ran > 0 {
		ran, setup = w.now-c.ran, c.setup
	}
	if !keep {
		c.f.failed++
	}
	if b := w.boxes[c.container]; b != nil && b.made {
		b.allocated, b.resident = c.f.memory, c.f.memory
	}
	c.f.done++
	if c.f.end(c.k) == dies && !keep {
		w.tell(scheduler.Event{Kind: scheduler.Died, Container: c.container})
	}
	if keep {
		w.report(c.container)
		w.tell(scheduler.Event{Kind: scheduler.Answered, Invocation: id})
	}
	w.after(w.logs, func() {
		ended := scheduler.Event{At: w.now, Kind: scheduler.Ended, Invocation: id, Keep: keep, Setup: setup, Ran: ran}
		if w.together {
			w.s.Take(ended)
		} else {
			w.tell(ended)
		}
		w.tell(scheduler.Event{Kind: scheduler.Left, Invocation: id, Keep: keep, Setup: setup, Ran: ran})
		delete(w.calls, id)
	})
}

func (w *world) move(o scheduler.Order) {
	b := w.boxes[o.Container]
	b.epoch = o.Epoch
	w.after(time.Duration(float64(o.Bytes)/w.bytesPer*1e9), func() {
		if w.boxes[o.Container] != b || b.epoch != o.Epoch {
			return
		}
		running := false
		for _, c := range w.calls {
			running = running || c.begun && !c.over && c.container == o.Container
		}
		b.resident = b.allocated
		if o.Move == gpu.Evict && !running {
			b.resident = 0
		}
		w.report(o.Container)
		w.tell(scheduler.Event{Kind: scheduler.Moved, Container: o.Container, Epoch: o.Epoch, Bytes: o.Bytes, OK: true})
	})
}

// lose takes a device out of service for a while, and ends its runs.
func (w *world) lose(device int, down time.Duration) {
	w.lost[device] = true
	w.tell(scheduler.Event{Kind: scheduler.DeviceLost, Device: device, Why: "a test"})
	var ids []uint64
	for id, c := range w.calls {
		if c.begun && !c.over && c.device == device {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	w.after(50*time.Millisecond, func() {
		for _, id := range ids {
			w.answer(id, false)
		}
	})
	w.after(down, func() {
		delete(w.lost, device)
		w.tell(scheduler.Event{Kind: scheduler.DeviceBack, Device: device})
	})
}

// until lets the world go on until a time.
func (w *world) until(end time.Duration) {
	for w.step(end) {
	}
}

func (w *world) step(end time.Duration) bool {
	next := end
	for _, f := range w.functions {
		for f.queued < f.keep && (f.on == nil || f.on(w.now)) {
			w.submit(f)
		}
		if f.on != nil {
			next = min(next, w.now+time.Second)
		}
	}
	w.compare()
	w.compareUnequal()
	if len(w.timers) > 0 {
		next = min(next, w.timers[0].at)
	}
	if at, due := w.s.Deadline(); due {
		next = min(next, at)
	}
	next = max(next, w.now)
	w.countUnused(next)
	if w.now = next; next >= end {
		return false
	}
	for len(w.timers) > 0 && w.timers[0].at <= w.now {
		heap.Pop(&w.timers).(worldTimer).do()
	}
	if at, due := w.s.Deadline(); due && at <= w.now {
		w.tell(scheduler.Event{Kind: scheduler.Tick})
	}
	return true
}
