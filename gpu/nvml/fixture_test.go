//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const (
	giB      = 1 << 30
	reserved = 600 << 20
)

// fixture is a mocked DGX A100 that answers every call that we make.
type fixture struct {
	*server.Server
	mu      sync.Mutex
	missing []string // symbols that the driver's library has not
	broken  map[string]nvml.Return
	events  chan nvml.EventData

	busy   atomic.Uint32 // percent, of all cards
	errors atomic.Uint64 // uncorrected, of card 6
	action atomic.Uint32 // of recovery, for all cards
	later  atomic.Bool   // "GPU-new" is there instead of card 5
}

func newFixture(t *testing.T) *fixture { t.Helper(); return newFixtureOf(dgxa100.New()) }

func newFixtureOf(machine *server.Server) *fixture {
	b := &fixture{Server: machine, broken: map[string]nvml.Return{}, events: make(chan nvml.EventData)}
	b.LookupSymbolFunc = func(symbol string) error {
		for _, m := range b.missing {
			if m == symbol {
				return errors.New("undefined symbol")
			}
		}
		return nil
	}
	b.busy.Store(50)
	known := b.DeviceGetHandleByUUIDFunc
	b.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
		if uuid == "GPU-new" && b.later.Load() {
			uuid = "GPU-5"
		}
		return known(uuid)
	}
	b.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return b.eventSet(), b.ret("EventSetCreate") }
	for i, d := range b.Devices {
		d.(*server.Device).UUID = fmt.Sprintf("GPU-%d", i)
		b.complete(d.(*server.Device))
	}
	return b
}

// ret returns the scripted result of a call.
func (b *fixture) ret(call string) nvml.Return {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken[call]
}

// fail makes calls of one name return an error, or, with SUCCESS, work again.
func (b *fixture) fail(call string, ret nvml.Return) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken[call] = ret
}

// complete adds the answers that the mock lacks, and lets every one be broken.
func (b *fixture) complete(d *server.Device) {
	m := &d.Device
	m.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: 40 * giB, Reserved: reserved, Free: 30 * giB, Used: 9 * giB}, nvml.SUCCESS
	}
	m.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) {
		return nvml.Memory{Total: 40 * giB, Free: 30 * giB, Used: 10 * giB}, nvml.SUCCESS
	}
	m.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		var p nvml.PciInfo
		for i, c := range []byte(d.PciBusID) {
			p.BusId[i] = int8(c)
		}
		return p, nvml.SUCCESS
	}
	m.GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return nvml.COMPUTEMODE_DEFAULT, nvml.SUCCESS }
	m.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
	m.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	m.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 20, UsedGpuMemory: giB}, {Pid: 10, UsedGpuMemory: ^uint64(0)}}, nvml.SUCCESS
	}
	m.GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS }
	m.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	m.GetMigDeviceHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_NOT_FOUND }
	m.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: b.busy.Load()}, nvml.SUCCESS }
	m.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
		if d.Index != 6 {
			return 0, nvml.SUCCESS
		}
		return b.errors.Load(), nvml.SUCCESS
	}
	m.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return eventMask, nvml.SUCCESS }
	m.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		for i := range values {
			values[i].NvmlReturn = uint32(b.ret("FieldValue"))
			binary.NativeEndian.PutUint32(values[i].Value[:], b.action.Load())
		}
		return nvml.SUCCESS
	}
	m.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	b.breakable(m)
}

// breakable wraps every answer that a mock has, so that fail concerns it.
func (b *fixture) breakable(m *mock.Device) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		name, isFunc := strings.CutSuffix(v.Type().Field(i).Name, "Func")
		f := v.Field(i)
		if !isFunc || f.IsNil() {
			continue
		}
		inner := reflect.ValueOf(f.Interface())
		f.Set(reflect.MakeFunc(f.Type(), func(in []reflect.Value) []reflect.Value {
			ret := b.ret(name)
			if ret == nvml.SUCCESS {
				return inner.Call(in)
			}
			out := make([]reflect.Value, f.Type().NumOut())
			for k := range out {
				out[k] = reflect.Zero(f.Type().Out(k))
			}
			out[len(out)-1] = reflect.ValueOf(ret)
			return out
		}))
	}
}

// slices divides a card into n slices.
func (b *fixture) slices(card, n int) {
	parent := b.Devices[card].(*server.Device)
	parent.MigMode = nvml.DEVICE_MIG_ENABLE
	var all []*mock.Device
	for i := range n {
		all = append(all, b.slice(parent, fmt.Sprintf("MIG-%d-%d", card, i), i))
	}
	parent.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i >= len(all) {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return all[i], nvml.SUCCESS
	}
	byUUID := b.DeviceGetHandleByUUIDFunc
	b.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
		for _, s := range all {
			if id, _ := s.GetUUID(); id == uuid {
				return s, nvml.SUCCESS
			}
		}
		return byUUID(uuid)
	}
}

func (b *fixture) slice(parent *server.Device, uuid string, gi int) *mock.Device {
	s := &mock.Device{
		GetUUIDFunc: func() (string, nvml.Return) { return uuid, nvml.SUCCESS },
		GetNameFunc: func() (string, nvml.Return) { return "A100 MIG 1g.5gb", nvml.SUCCESS },
		GetMemoryInfo_v2Func: func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 5 * giB, Free: 5 * giB}, nvml.SUCCESS
		},
		GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return gi, nvml.SUCCESS },
		GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, nvml.SUCCESS },
		GetDeviceHandleFromMigDeviceHandleFunc: func() (nvml.Device, nvml.Return) {
			return parent, nvml.SUCCESS
		},
		GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) {
			return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED
		},
		GetComputeRunningProcessesFunc:    func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS },
		GetMPSComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.SUCCESS },
		GetTotalEccErrorsFunc: func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
			return 0, nvml.ERROR_NOT_SUPPORTED
		},
	}
	b.breakable(s)
	return s
}

func (b *fixture) open(t *testing.T) *Driver {
	t.Helper()
	d, err := open(b.Server)
	check.NoError(t, err)
	return d
}

func (b *fixture) cards(t *testing.T) []Card {
	t.Helper()
	cards, err := b.open(t).Cards()
	check.NoError(t, err)
	return cards
}

func mocked(b *fixture, card int) *mock.Device { return &b.Devices[card].(*server.Device).Device }
