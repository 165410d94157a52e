package invoker

import (
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// How much of a look is taken in one turn. Thousands of functions and containers
// take milliseconds to tell of, which no decision shall wait for: between two
// parts all that came meanwhile is decided.
const (
	partFlows = 32
	partBoxes = 128
)

// look is a snapshot that is being taken, part by part, after the decisions of
// successive turns. What is of one flow or container is of one moment; those of
// different parts are some turns apart.
type look struct {
	questions []question // whose answer it is
	flows     []*FlowStatus
	seen      int              // of the lane's shown flows
	views     []container.View // of the CPU lane's containers, still to be shown
	stirred   int              // GPU containers still to be told of
}

// onward has another turn follow, with the next part.
type onward struct{}

func (onward) apply(*dispatcher, time.Duration) {}

// answer takes the next part of what somebody asked for.
func (d *dispatcher) answer() {
	if d.looking == nil {
		if len(d.questions) == 0 {
			return
		}
		d.looking, d.questions = d.look(d.questions), nil
	}
	if d.part(d.looking) {
		s := d.snapshot(d.looking)
		for _, q := range d.looking.questions {
			q.reply <- s
		}
		d.looking = nil
	}
	if d.looking != nil || len(d.questions) > 0 {
		d.turns.put(onward{})
	}
}

func (d *dispatcher) look(questions []question) *look {
	k := &look{questions: questions, views: d.pool.Views()}
	if l := d.gpus; l != nil {
		k.stirred = l.lane.Stirring()
		k.flows = make([]*FlowStatus, 0, l.shown.begin(l.lane))
	}
	return k
}

// part takes a part of a look, and tells whether it was the last.
func (d *dispatcher) part(k *look) (last bool) {
	n := min(len(k.views), partBoxes)
	d.pooled(k.views[:n])
	if k.views = k.views[n:]; len(k.views) > 0 || d.gpus == nil {
		return len(k.views) == 0
	}
	l := d.gpus
	if k.stirred > 0 {
		k.stirred = l.lane.Stirred(k.stirred, partBoxes, func(s lane.BoxStats) {
			if b := l.boxes[s.Box]; b != nil {
				d.shown.put(b, b.status(s))
			}
		})
		return false
	}
	k.flows, k.seen = l.shown.part(l.lane, k.flows, k.seen, partFlows)
	return k.seen == len(l.shown.list)
}

// snapshot puts together what the parts of a look have found.
func (d *dispatcher) snapshot(k *look) Status {
	s := Status{Pool: d.pool.Stats(), Containers: d.shown.all()}
	if l := d.gpus; l != nil {
		st := l.lane.Stats()
		s.Policy, s.Backlog, s.Flows = st.Policy, l.backlog.status(), k.flows
		for _, d := range st.Devices {
			s.Devices = append(s.Devices, deviceStatus(d))
		}
	}
	return s
}
