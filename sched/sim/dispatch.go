package sim

import (
	"math"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Facts implements sched.View from the pool and the ledger of the device.
func (e *engine) Facts(flow sched.FlowID, dev int) sched.Facts {
	fn, ok := e.byFlow[flow]
	if !ok {
		return sched.Facts{}
	}
	f, d := &e.fns[fn], e.devices[dev]
	id, kind, ok := d.pool.Peek(f.key)
	facts := sched.Facts{Start: start(kind), Fits: d.ledger.Possible(id, f.need)}
	switch {
	case !ok:
		facts.Setup = time.Duration(e.demand.Restart(f.key) * float64(time.Second))
		_, idle := d.pool.Len()
		if d.pool.Full() && idle == 0 && e.p.Pool.Size > 0 {
			facts.Fits = false // every container is busy and none may be added
		}
	case !d.ledger.Resident(id):
		facts.Start = sched.HostWarm
		facts.Setup = e.p.Link.Exposed(e.p.Link.Transfer(f.need.Bytes))
	}
	return facts
}

// start translates gpu's word for a start into sched's.
func start(k gpu.StartKind) sched.Start {
	switch k {
	case gpu.HostWarm:
		return sched.HostWarm
	case gpu.Cold:
		return sched.Cold
	case gpu.BusyCold:
		return sched.BusyCold
	}
	return sched.GPUWarm
}

// settle lets the policy decide until it has nothing more to grant, then
// follows the changes of flow states.
func (e *engine) settle() {
	for {
		e.cost.begin(e.p.Clock)
		c, ok := e.policy.Next(e.now)
		e.cost.end(e.p.Clock)
		if !ok {
			break
		}
		e.cost.decisions++
		e.grant(c)
	}
	e.follow()
	if e.p.PrefetchNext {
		e.pipeline()
	}
	e.check()
}

// grant gives the chosen activation a container and asks for its memory.
func (e *engine) grant(c sched.Choice) {
	j := int32(c.Item)
	job := &e.jobs[j]
	f, d := &e.fns[job.fn], e.devices[c.Device]
	f.queued--
	job.granted, job.dev = e.now, int32(c.Device)
	e.gaps.charged(job.fn, c.Charged)
	id, kind, warm := d.pool.Take(e.now, f.key)
	job.kind = kind
	if warm {
		job.cont = e.conts[id]
		if !d.ledger.Resident(id) {
			job.kind = gpu.HostWarm
		}
	} else {
		e.makePlace(d)
		job.cont = e.newContainer(job.fn, job.dev)
		d.pool.Add(e.now, job.cont.id, f.key)
	}
	job.cont.job = j
	job.phase = noRoom
	standing, err := d.ledger.Reserve(e.now, job.cont.id, f.need)
	if err != nil {
		e.fail(err)
		return
	}
	if standing {
		e.admit(j)
	}
	e.relieve(d)
	e.obey(job.dev)
}

// makePlace gives up an idle container when the pool is full.
func (e *engine) makePlace(d *device) {
	if e.p.Pool.Size > 0 && d.pool.Full() {
		e.giveUp(d)
	}
}

// giveUp removes the idle container that the retention rule picks.
func (e *engine) giveUp(d *device) bool {
	id, ok := d.pool.Victim(e.view)
	if !ok {
		return false
	}
	c := e.conts[id]
	flow := e.fns[c.fn].flow
	e.remove(c)
	e.policy.Touch(e.now, flow)
	return true
}

// relieve gives up idle containers while the oldest waiting reservation could
// not stand even with all idle memory moved out: contexts cannot be moved.
func (e *engine) relieve(d *device) {
	for d.ledger.Shortfall() > 0 && e.giveUp(d) {
	}
}

// view tells the pool about a flow.
func (e *engine) view(key string) gpu.FlowView {
	f := &e.fns[e.byKey[key]]
	v := gpu.FlowView{Rate: e.demand.Rate(e.now, key), Restart: e.demand.Restart(key)}
	switch state := e.policy.State(f.flow); {
	case state == sched.Throttled:
		v.State = gpu.Throttled
	case f.queued > 0:
		v.State = gpu.Backlogged
	case state == sched.Active:
		v.State = gpu.Active
	}
	return v
}

// admit starts a granted activation whose reservation stands.
func (e *engine) admit(j int32) {
	job := &e.jobs[j]
	if job.kind == gpu.Cold || job.kind == gpu.BusyCold {
		job.phase = starting
		e.timers.push(timer{at: e.now + e.p.ContainerStart, kind: containerStarted, job: j})
		return
	}
	e.swapIn(j)
}

// swapIn waits for the memory of a live container, or runs at once.
func (e *engine) swapIn(j int32) {
	job := &e.jobs[j]
	d := e.devices[job.dev]
	e.obey(job.dev)
	if d.ledger.Resident(job.cont.id) {
		e.run(j)
		return
	}
	job.phase = swappingIn
	wait := e.p.Link.Exposed(job.cont.arrives - e.now)
	e.timers.push(timer{at: e.now + max(0, wait), kind: overlapped, job: j})
}

// enter puts a job among those that use the device.
func (e *engine) enter(j int32, p phase, work time.Duration) {
	job := &e.jobs[j]
	d := e.devices[job.dev]
	e.advance(d)
	job.phase, job.remaining = p, int64(work)
	d.running = append(d.running, j)
}

func (e *engine) initialize(j int32) {
	job := &e.jobs[j]
	f := &e.fns[job.fn]
	init := f.spec.Cold - f.spec.Warm
	d := e.devices[job.dev]
	// Its allocations appear while it initializes, within the reservation.
	e.fail(d.ledger.Report(e.now, job.cont.id, 1, gpu.Usage{
		Allocated: f.need.Bytes, Resident: f.need.Bytes, Context: f.need.Context,
	}))
	switch {
	case init == 0:
		e.run(j)
	case e.p.InitInterferes:
		e.enter(j, initing, init)
	default:
		job.phase = initing
		e.timers.push(timer{at: e.now + init, kind: initialized, job: j})
	}
}

func (e *engine) run(j int32) {
	job := &e.jobs[j]
	job.ran = e.now
	if job.kind == gpu.Cold || job.kind == gpu.BusyCold {
		e.demand.Started(e.fns[job.fn].key, e.now-job.granted)
	}
	e.enter(j, running, e.w.Work(e.w.Arrivals[j]))
}

// completions ends the phases of a device's runs whose work is done.
func (e *engine) completions(dev int, d *device) {
	for i := 0; i < len(d.running); {
		j := d.running[i]
		job := &e.jobs[j]
		if job.remaining > 1 {
			i++
			continue
		}
		d.running = append(d.running[:i], d.running[i+1:]...)
		if job.phase == initing {
			e.run(j)
		} else {
			e.complete(j, dev, d)
		}
	}
}

// complete ends an activation and gives back what it held.
func (e *engine) complete(j int32, dev int, d *device) {
	job := &e.jobs[j]
	f := &e.fns[job.fn]
	job.phase, job.ended = finished, e.now
	e.done++
	used := sched.Usage{Service: e.now - job.granted}
	if job.kind == gpu.Cold || job.kind == gpu.BusyCold {
		used = sched.Usage{Service: e.now - job.ran, Setup: job.ran - job.granted}
	}
	f.largest = max(f.largest, used.Service)
	e.learn(d, job, f.key)
	c := job.cont
	c.job = -1
	d.ledger.Release(e.now, c.id)
	if keep := d.pool.Put(e.now, c.id); !keep {
		e.remove(c)
	} else {
		d.ledger.SetEvictable(e.now, c.id, e.p.SwapEachRun)
	}
	e.cost.begin(e.p.Clock)
	e.policy.Done(e.now, uint64(j), used)
	e.cost.end(e.p.Clock)
	e.relieve(d)
	e.obey(int32(dev))
}

// learn tells the tokens how long a run took among so many at once. A run whose
// company changed on its way says nothing about either number.
func (e *engine) learn(d *device, job *job, key string) {
	if !e.p.Tokens.Dynamic {
		return
	}
	took := e.now - job.ran
	together := float64(job.shared) / float64(max(1, took))
	if k := math.Round(together); math.Abs(together-k) < 0.1 {
		d.tokens.Learn(key, int(k), took)
	}
}

func (e *engine) fail(err error) {
	if err != nil && e.fault == nil {
		e.fault = err
	}
}
