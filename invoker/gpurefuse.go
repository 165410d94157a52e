package invoker

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
)

// legible is a size in whole megabytes, less than one of them aside.
func legible(bytes int64) activation.Size {
	const megabyte = 1 << 20
	if bytes > megabyte {
		bytes -= bytes % megabyte
	}
	return activation.Size(bytes)
}

// refuse answers an activation that will never run here.
func (l *gpuLane) refuse(o lane.Order) {
	text := textAborted
	switch o.Reason {
	case lane.TooBig:
		text = fmt.Sprintf("The action asks for %s of GPU memory (annotation gpu, key memory); "+
			"the device has %s, of which the context of a container takes %s.",
			activation.Size(o.Memory), legible(o.Most), legible(l.settings.ContextMem))
	case lane.NoDevice:
		text = fmt.Sprintf("The action waited %s for a GPU and there was none that could run it (%s); "+
			"it waits no longer than %s (whisk.gpu.device-patience).",
			o.Waited.Round(time.Second), l.missing(), l.settings.Patience)
	case lane.Overdue:
		text = fmt.Sprintf("The action waited %s for a GPU, longer than anybody waits for its answer (whisk.gpu.overdue).", o.Waited.Round(time.Second))
	}
	j := l.jobs[o.Item]
	if j == nil {
		l.refuseParked(o.Item, o.Reason, text)
		return
	}
	delete(l.jobs, o.Item)
	l.d.turnAway(j.ticket, j, refusal{response: appError(text), known: true})
}

// missing says which devices are away and why.
func (l *gpuLane) missing() string {
	var why []string
	for i := range l.settings.Devices {
		if d := l.lane.Device(i); d.Lost != "" {
			why = append(why, fmt.Sprintf("device %s is lost: %s", d.Device, d.Lost))
		}
	}
	return strings.Join(why, "; ")
}
