package lane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/sched"
)

// Explain says what holds a flow, or which rule chose it last. Of one that fits
// nowhere it names what lacks.
func (l *Lane) Explain(id sched.FlowID) sched.Reason {
	r := l.policy.Explain(l.now, id)
	if f := l.known(id); r.Rule == sched.RuleNoFit && f != nil {
		r.Lack = l.lack(f)
	}
	return r
}

// lack names what the next run of a flow lacks on the devices with a free token,
// each limit once.
func (l *Lane) lack(f *flow) string {
	rev := l.next(f)
	var all []string
	for _, dev := range l.devices {
		if dev.lost != "" || dev.inFlight >= dev.d {
			continue
		}
		own, _, _ := l.serving(dev, rev)
		if why := l.lacks(dev, rev, own); why != "" && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

// lacks names the first limit that fits finds reached.
func (l *Lane) lacks(dev *device, rev *revision, own *box) string {
	need := l.need(dev, rev, own)
	switch {
	case !l.permits(dev, rev, own, need.Bytes):
		return fmt.Sprintf("namespace %s has reached its limit of %d MiB of device memory (whisk.gpu.namespace-limits)",
			rev.flow.id.Namespace, l.most(rev.flow.id.Namespace)>>20)
	case !l.holds(dev, rev, own):
		return fmt.Sprintf("it needs %d MiB of device memory, and others that run hold too much", (need.Bytes+need.Context)>>20)
	case own == nil && !l.place(dev):
		return fmt.Sprintf("all %d containers of the device are in use (whisk.gpu.pool-size)", l.cfg.Pool.Size)
	case own == nil && !l.affords(rev):
		return fmt.Sprintf("a container of it takes %d MB of host memory and %d are free (whisk.container-pool.user-memory)", rev.hostMB, l.host.Free)
	}
	return ""
}
