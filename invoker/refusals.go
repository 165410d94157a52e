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

// refusal is what the author of an action reads that will never run here.
func (g GPUSettings) refusal(o lane.Order, l *lane.Lane) string {
	switch o.Reason {
	case lane.TooBig:
		return fmt.Sprintf("The action asks for %s of GPU memory (annotation gpu, key memory); "+
			"the device has %s, of which the context of a container takes %s.",
			activation.Size(o.Memory), legible(o.Most), legible(g.ContextMem))
	case lane.NoDevice:
		return fmt.Sprintf("The action waited %s for a GPU and there was none that could run it (%s); "+
			"it waits no longer than %s (whisk.gpu.device-patience).",
			o.Waited.Round(time.Second), missing(l, len(g.Devices)), g.Patience)
	case lane.Overdue:
		return fmt.Sprintf("The action waited %s for a GPU, longer than anybody waits for its answer (whisk.gpu.overdue).", o.Waited.Round(time.Second))
	}
	return textAborted
}

// missing says which devices are away and why.
func missing(l *lane.Lane, devices int) string {
	var why []string
	for i := range devices {
		if d := l.Device(i); d.Lost != "" {
			why = append(why, fmt.Sprintf("device %s is lost: %s", d.Device, d.Lost))
		}
	}
	return strings.Join(why, "; ")
}
