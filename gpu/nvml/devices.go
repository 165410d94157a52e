package nvml

import "github.com/gpuwhisk/gpuwhisk/gpu"

// Devices lists the devices for scheduling: each MIG slice of a divided card, and each
// other card as a whole. Cards that are lost, divided without slices or closed to all
// processes are left out. The order follows the cards and slices, so a host has the
// same indexes after a restart.
func Devices(cards []Card) []gpu.Device {
	var out []gpu.Device
	add := func(card int, uuid, name string, m Memory, s gpu.Sharing) {
		d := gpu.Device{Index: len(out), Card: card, UUID: uuid, Name: name, MemoryBytes: m.Total, Sharing: s}
		if uuid != "" && d.Validate() == nil {
			out = append(out, d)
		}
	}
	for _, c := range cards {
		switch {
		case c.Lost != "" || c.Mode == ModeProhibited:
		case c.MIG == On:
			for _, s := range c.Slices {
				add(c.Index, s.UUID, s.Name, s.Memory, gpu.MIGSlice)
			}
		default:
			add(c.Index, c.UUID, c.Name, c.Memory, gpu.Whole)
		}
	}
	return out
}
