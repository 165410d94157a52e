package sched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// fixture is the rest of the invoker as a test needs it: containers per flow and
// device that are created, used and evicted, and memory that may not suffice.
type fixture struct {
	flows   []FlowID
	index   map[FlowID]int
	devices int
	idle    [][]int // flow, device
	busy    [][]int
	swapped [][]bool
	full    [][]bool
	unfit   [][]bool
	cold    []time.Duration
	swap    time.Duration
	room    []int64 // of each device, for plain flows
	free    []int64
}

func newFixture(rng *rand.Rand, flows, devices int) *fixture {
	w := &fixture{index: map[FlowID]int{}, devices: devices, swap: 150 * time.Millisecond}
	for range devices {
		w.room, w.free = append(w.room, 20), append(w.free, 20)
	}
	for i := range flows {
		id := FlowID{fmt.Sprintf("ns%d", i%4), fmt.Sprintf("fn%02d", i)}
		w.flows = append(w.flows, id)
		w.index[id] = i
		w.idle = append(w.idle, make([]int, devices))
		w.busy = append(w.busy, make([]int, devices))
		w.swapped = append(w.swapped, make([]bool, devices))
		w.full = append(w.full, make([]bool, devices))
		w.unfit = append(w.unfit, make([]bool, devices))
		w.cold = append(w.cold, time.Duration(rng.IntN(12_000))*time.Millisecond)
	}
	return w
}

func (w *fixture) Work(id FlowID) Work {
	i := w.index[id]
	return testWork{devices: w.devices, at: func(d int) Placement { return w.placement(i, d) }, plain: w.plain(i)}
}

// testWork is a flow by its placements.
type testWork struct {
	devices int
	at      func(device int) Placement
	plain   bool
	limited bool
}

func (w testWork) Placement(device int) Placement { return w.at(device) }

func (w testWork) Outlook() Outlook {
	o := Outlook{Setup: limit, Plain: w.plain, Limited: w.limited}
	for d := range w.devices {
		p := w.at(d)
		o.Setup, o.Need = min(o.Setup, p.Setup), max(o.Need, p.Need)
		o.Servable = o.Servable || p.Lacks&LacksDevice == 0
		o.ShortOfHost = o.ShortOfHost || p.Lacks&LacksHost != 0
	}
	return o
}

// plain is whether a flow is served without containers, and fits where there is room for it.
func (w *fixture) plain(i int) bool { return i%3 == 1 }

func (w *fixture) placement(i, d int) Placement {
	if w.plain(i) {
		return w.plainPlacement(i, d)
	}
	f := Placement{Start: Cold, Setup: w.cold[i], Fits: !w.full[i][d] && !w.unfit[i][d], Need: int64(i + 1), Room: 20, Shares: i%5 == 0, Displaces: (i+d)%4 == 0}
	switch {
	case w.unfit[i][d]:
		f.Lacks = LacksDevice
	case w.full[i][d]:
		f.Lacks = []Lack{LacksMemory, LacksContainer, LacksLimit, LacksHost}[i%4]
	}
	switch {
	case w.idle[i][d] > 0 && w.swapped[i][d]:
		f.Start, f.Setup = HostWarm, w.swap
	case w.idle[i][d] > 0:
		f.Start, f.Setup = GPUWarm, 0
	case w.busy[i][d] > 0:
		f.Start = BusyCold
	}
	return f
}

// short is whether a plain flow is short of host memory.
func (w *fixture) short(i int) bool { return i%2 == 0 && w.full[i][0] }

func (w *fixture) plainPlacement(i, d int) Placement {
	need := int64(i + 1)
	p := Placement{Start: Cold, Setup: w.swap, Need: need, Room: w.room[d]}
	switch {
	case need > w.room[d]:
		p.Lacks = LacksDevice
	case need > w.free[d]:
		p.Lacks = LacksMemory
	}
	if w.short(i) && p.Lacks&LacksDevice == 0 {
		p.Lacks |= LacksHost
	}
	p.Fits = p.Lacks == 0
	return p
}

func (w *fixture) granted(c Choice) {
	i := w.index[c.Flow]
	if w.idle[i][c.Device] > 0 {
		w.idle[i][c.Device]--
	}
	w.busy[i][c.Device]++
	w.swapped[i][c.Device] = false
}

func (w *fixture) ended(c Choice) {
	i := w.index[c.Flow]
	w.busy[i][c.Device]--
	w.idle[i][c.Device]++
}

// meddle changes something behind the policy's back and names the flow.
func (w *fixture) meddle(rng *rand.Rand) FlowID {
	i, d := rng.IntN(len(w.flows)), rng.IntN(w.devices)
	switch rng.IntN(8) {
	case 6, 7:
		w.room[d] = int64(rng.IntN(len(w.flows) + 1))
		w.free[d] = rng.Int64N(w.room[d] + 1)
	case 0:
		w.idle[i][d] = 0
	case 1:
		w.swapped[i][d] = !w.swapped[i][d]
	case 2:
		w.full[i][d] = true
	case 3:
		for d := range w.devices {
			w.full[i][d], w.unfit[i][d] = false, false
		}
	case 4:
		w.unfit[i][d] = true
	case 5:
		for d := range w.devices {
			w.unfit[i][d] = true
		}
	}
	return w.flows[i]
}

// newScheduler makes one with a policy's defaults, adjusted.
func newScheduler(tb testing.TB, policy string, view View, adjust func(*Config)) *Scheduler {
	tb.Helper()
	cfg := testPolicy(policy).Defaults()
	if adjust != nil {
		adjust(&cfg)
	}
	s, err := testPolicy(policy).New(cfg, view)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// everywhere is the view without containers and memory: every invocation fits everywhere and
// starts at once.
type everywhere struct{}

func (everywhere) Work(FlowID) Work        { return everywhere{} }
func (everywhere) Outlook() Outlook        { return Outlook{Servable: true} }
func (everywhere) Placement(int) Placement { return Placement{Fits: true} }
