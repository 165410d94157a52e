//go:build cgo && linux

package nvml

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Cards describes every GPU of the host. A card that does not answer is listed
// with the reason in Lost; a question that a card does not answer leaves its
// field unknown.
func (d *Driver) Cards() ([]Card, error) {
	n, ret := d.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count GPUs: %w", ret)
	}
	cards := make([]Card, n)
	for i := range cards {
		cards[i] = d.card(i)
	}
	return cards, nil
}

func (d *Driver) card(index int) Card {
	c := Card{Index: index, Minor: -1}
	h, ret := d.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		c.Memory = Memory{unknownBytes, unknownBytes, unknownBytes}
		c.Lost = why(ret)
		return c
	}
	a := &asked{}
	c.UUID = answer(a, h.GetUUID, "")
	c.Name = answer(a, h.GetName, "")
	c.Memory = d.memory(a, h)
	c.Minor = answer(a, h.GetMinorNumber, -1)
	c.Bus = bus(a, h)
	c.Capability = capability(a, h)
	c.Mode = mode(a, h)
	c.Persistence = enabled(a, h.GetPersistenceMode)
	c.ECC = enabled(a, func() (nvml.EnableState, nvml.Return) {
		now, _, ret := h.GetEccMode()
		return now, ret
	})
	c.Processes, c.MPS, _ = d.processes(a, h)
	d.divide(a, h, &c)
	if a.lost != nvml.SUCCESS {
		c.Lost = why(a.lost)
	}
	return c
}

// asked stores whether one of the questions found the device lost.
type asked struct {
	lost nvml.Return
}

// ok stores a call's return and reports whether it has an answer.
func (a *asked) ok(ret nvml.Return) bool {
	if gone(ret) && a.lost == nvml.SUCCESS {
		a.lost = ret
	}
	return ret == nvml.SUCCESS
}

// answer returns the result of a call, or none if the call has no answer.
func answer[T any](a *asked, call func() (T, nvml.Return), none T) T {
	if v, ret := call(); a.ok(ret) {
		return v
	}
	return none
}

// memory prefers the newer call: only that one separates the driver's own part.
func (d *Driver) memory(a *asked, h nvml.Device) Memory {
	if d.has("nvmlDeviceGetMemoryInfo_v2") {
		if m, ret := h.GetMemoryInfo_v2(); a.ok(ret) {
			return Memory{size(m.Total - min(m.Reserved, m.Total)), size(m.Free), size(m.Used)}
		}
	}
	if m, ret := h.GetMemoryInfo(); a.ok(ret) {
		return Memory{size(m.Total), size(m.Free), size(m.Used)}
	}
	return Memory{unknownBytes, unknownBytes, unknownBytes}
}

// size is a number of bytes, of which NVML's largest means "not available".
func size(n uint64) int64 {
	if n > math.MaxInt64 {
		return unknownBytes
	}
	return int64(n)
}

func bus(a *asked, h nvml.Device) string {
	var id []byte
	for _, c := range answer(a, h.GetPciInfo, nvml.PciInfo{}).BusId {
		if c == 0 {
			break
		}
		id = append(id, byte(c))
	}
	return string(id)
}

func capability(a *asked, h nvml.Device) string {
	major, sub, ret := h.GetCudaComputeCapability()
	if !a.ok(ret) {
		return ""
	}
	return fmt.Sprintf("%d.%d", major, sub)
}

func mode(a *asked, h nvml.Device) ComputeMode {
	switch answer(a, h.GetComputeMode, nvml.COMPUTEMODE_COUNT) {
	case nvml.COMPUTEMODE_DEFAULT:
		return ModeDefault
	case nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, nvml.COMPUTEMODE_EXCLUSIVE_THREAD:
		return ModeExclusive
	case nvml.COMPUTEMODE_PROHIBITED:
		return ModeProhibited
	}
	return ModeUnknown
}

func enabled(a *asked, call func() (nvml.EnableState, nvml.Return)) Switch {
	s, ret := call()
	if !a.ok(ret) {
		return Unknown
	}
	return onOff(s == nvml.FEATURE_ENABLED)
}

func onOff(on bool) Switch {
	if on {
		return On
	}
	return Off
}

// processes lists the processes with a context on a device, and reports whether an MPS
// daemon serves some of the processes. listed is false if the driver has no list.
func (d *Driver) processes(a *asked, h nvml.Device) (all []Process, mps, listed bool) {
	add := func(infos []nvml.ProcessInfo) {
		for _, p := range infos {
			if !slices.ContainsFunc(all, func(o Process) bool { return o.PID == int(p.Pid) }) {
				all = append(all, Process{PID: int(p.Pid), Bytes: size(p.UsedGpuMemory)})
			}
		}
	}
	own, ret := h.GetComputeRunningProcesses()
	if listed = a.ok(ret); listed {
		add(own)
	}
	if d.has("nvmlDeviceGetMPSComputeRunningProcesses") {
		if clients, ret := h.GetMPSComputeRunningProcesses(); a.ok(ret) {
			add(clients)
			mps, listed = len(clients) > 0, true
		}
	}
	slices.SortFunc(all, func(x, y Process) int { return cmp.Compare(x.PID, y.PID) })
	return all, mps, listed
}

// divide reads whether a card is divided by MIG, and its slices.
func (d *Driver) divide(a *asked, h nvml.Device, c *Card) {
	if !d.has("nvmlDeviceGetMigMode") {
		return
	}
	now, pending, ret := h.GetMigMode()
	if !a.ok(ret) {
		return
	}
	c.MIG, c.MIGPending = onOff(now == nvml.DEVICE_MIG_ENABLE), onOff(pending == nvml.DEVICE_MIG_ENABLE)
	if c.MIG != On {
		return
	}
	for i := range answer(a, h.GetMaxMigDeviceCount, 0) {
		if s, ret := h.GetMigDeviceHandleByIndex(i); ret == nvml.SUCCESS { // most slots are empty
			c.Slices = append(c.Slices, d.slice(a, s, i))
		}
	}
}

func (d *Driver) slice(a *asked, h nvml.Device, index int) Slice {
	return Slice{
		Index: index, UUID: answer(a, h.GetUUID, ""), Name: answer(a, h.GetName, ""), Memory: d.memory(a, h),
		GPUInstance: answer(a, h.GetGpuInstanceId, -1), Instance: answer(a, h.GetComputeInstanceId, -1),
	}
}
