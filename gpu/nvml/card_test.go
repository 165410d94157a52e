//go:build cgo && linux

package nvml

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxb200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestCardsOfADGX(t *testing.T) {
	b := newFixture(t)
	cards := b.cards(t)
	check.Equal(check.Must(t), len(cards), 8)
	want := Card{
		Index: 3, Minor: 3, UUID: "GPU-3", Name: "Mock NVIDIA A100-SXM4-40GB", Bus: "0000:03:00.0", Capability: "8.0",
		Memory: Memory{Total: 40*giB - reserved, Free: 30 * giB, Used: 9 * giB},
		Mode:   ModeDefault, Persistence: On, ECC: On, MIG: Off, MIGPending: Off,
		Processes: []Process{{PID: 10, Bytes: -1}, {PID: 20, Bytes: giB}},
	}
	check.DeepEqual(t, cards[3], want)
	check.Equal(t, b.open(t).Versions(), Versions{Driver: "550.54.15", CUDA: "12.4", NVML: "12.550.54.15"})
}

// TestCardsOfNewerMachines: the cards of NVIDIA's later machines are listed like
// those of its first, with their own names and capabilities.
func TestCardsOfNewerMachines(t *testing.T) {
	for _, m := range []struct {
		machine          *server.Server
		name, capability string
	}{
		{dgxh100.New(), "H100", "9.0"}, {dgxh200.New(), "H200", "9.0"}, {dgxb200.New(), "B200", "10.0"},
	} {
		t.Run(m.name, func(t *testing.T) {
			cards := newFixtureOf(m.machine).cards(t)
			check.Equal(check.Must(t), len(cards), 8)
			c := cards[7]
			check.Contains(t, c.Name, m.name)
			check.Equal(t, c.Capability, m.capability)
			check.Equal(t, c.Bus, "0000:07:00.0")
			check.Equal(t, c.UUID, "GPU-7")
			check.That(t, c.Memory.Total != 0, "card %+v", c)
		})
	}
}

// cardCalls are the questions about a card whose answers may fail one by one.
var cardCalls = []string{
	"GetUUID", "GetName", "GetMinorNumber", "GetPciInfo", "GetCudaComputeCapability", "GetComputeMode",
	"GetPersistenceMode", "GetEccMode", "GetComputeRunningProcesses", "GetMPSComputeRunningProcesses",
	"GetMigMode", "GetMemoryInfo_v2",
}

// TestEachCallNotSupported: a card that does not answer one question answers
// all others, and is not taken for lost.
func TestEachCallNotSupported(t *testing.T) {
	whole := newFixture(t).cards(t)[0]
	for _, call := range cardCalls {
		t.Run(call, func(t *testing.T) {
			b := newFixture(t)
			b.fail(call, nvml.ERROR_NOT_SUPPORTED)
			c := b.cards(t)[0]
			check.Equal(t, c.Lost, "", "taken for lost")
			check.AtMost(t, len(differences(whole, c)), 2, "more than the answer is missing")
		})
	}
}

func differences(a, b Card) (fields []string) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
			fields = append(fields, x.Type().Field(i).Name)
		}
	}
	return fields
}

func TestEachCallDeviceLost(t *testing.T) {
	for _, call := range cardCalls {
		for _, ret := range []nvml.Return{nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED} {
			b := newFixture(t)
			b.fail(call, ret)
			cards := b.cards(t)
			check.Equal(check.Must(t), len(cards), 8, "%s answers %v: lost", call, ret)
			check.Equal(t, cards[0].Lost, why(ret), "%s answers %v: lost", call, ret)
			check.Equal(t, len(Devices(cards)), 0, "%s answers %v: lost cards are offered", call, ret)
		}
	}
}

func TestUnknownMemoryIsNotOffered(t *testing.T) {
	b := newFixture(t)
	b.fail("GetMemoryInfo_v2", nvml.ERROR_NOT_SUPPORTED)
	check.Equal(t, b.cards(t)[0].Memory, Memory{Total: 40 * giB, Free: 30 * giB, Used: 10 * giB}, "memory by the old call")
	b.fail("GetMemoryInfo", nvml.ERROR_NOT_SUPPORTED)
	cards := b.cards(t)
	check.Less(t, cards[0].Memory.Total, 0)
	check.Equal(t, len(Devices(cards)), 0)
}

// TestOldLibrary: functions that the loaded library lacks are not called.
func TestOldLibrary(t *testing.T) {
	b := newFixture(t)
	b.missing = []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMigMode"}
	c := b.cards(t)[0]
	check.Equal(t, c.Memory.Total, 40*giB)
	check.Equal(t, c.MIG, Unknown)
	check.Equal(t, c.Lost, "")
	check.Equal(t, len(mocked(b, 0).GetMemoryInfo_v2Calls()), 0, "a function was called that the library lacks: the process would end")
}

func TestHandleRefused(t *testing.T) {
	b := newFixture(t)
	first := b.DeviceGetHandleByIndexFunc
	b.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 2 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return first(i)
	}
	cards := b.cards(t)
	check.That(t, cards[2].Lost != "", "cards %+v", cards[1:3])
	check.Equal(t, cards[1].Lost, "")
	check.Equal(t, Devices(cards)[2].Card, 3, "card 3 is named")
	var uuids []string
	for i, d := range Devices(cards) {
		check.Equal(t, d.Index, i)
		uuids = append(uuids, d.UUID)
	}
	check.Equal(t, strings.Join(uuids, " "), "GPU-0 GPU-1 GPU-3 GPU-4 GPU-5 GPU-6 GPU-7")
}

func TestMIGSlicesReplaceTheCard(t *testing.T) {
	b := newFixture(t)
	b.slices(1, 2)
	b.slices(2, 0)
	cards := b.cards(t)
	want := []Slice{
		{0, "MIG-1-0", "A100 MIG 1g.5gb", Memory{5 * giB, 5 * giB, 0}, 0, 0},
		{1, "MIG-1-1", "A100 MIG 1g.5gb", Memory{5 * giB, 5 * giB, 0}, 1, 0},
	}
	check.Equal(t, cards[1].MIG, On)
	check.DeepEqual(t, cards[1].Slices, want)
	devices := Devices(cards)
	check.Equal(check.Must(t), len(devices), 8)
	check.Equal(t, devices[1].UUID, "MIG-1-0")
	check.Equal(t, devices[1].Sharing, gpu.MIGSlice)
	check.Equal(t, devices[2].UUID, "MIG-1-1")
	check.Equal(t, devices[1].MemoryBytes, 5*giB)
	check.Equal(t, devices[3].UUID, "GPU-3")
	check.Equal(t, devices[3].Sharing, gpu.Whole)
	check.Equal(t, devices[2].Card, 1)
	check.Equal(t, devices[3].Card, 3)
}

func TestComputeModes(t *testing.T) {
	for _, tt := range []struct {
		mode    nvml.ComputeMode
		want    ComputeMode
		offered int
	}{
		{nvml.COMPUTEMODE_DEFAULT, ModeDefault, 8},
		{nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, ModeExclusive, 8},
		{nvml.COMPUTEMODE_EXCLUSIVE_THREAD, ModeExclusive, 8},
		{nvml.COMPUTEMODE_PROHIBITED, ModeProhibited, 7},
		{nvml.COMPUTEMODE_COUNT, ModeUnknown, 8},
	} {
		b := newFixture(t)
		mocked(b, 0).GetComputeModeFunc = func() (nvml.ComputeMode, nvml.Return) { return tt.mode, nvml.SUCCESS }
		cards := b.cards(t)
		check.Equal(t, cards[0].Mode, tt.want, "mode %d", tt.mode)
		check.Equal(t, len(Devices(cards)), tt.offered, "mode %d", tt.mode)
	}
}

func TestMPSIsSeenByItsClients(t *testing.T) {
	for _, tt := range []struct {
		clients []nvml.ProcessInfo
		want    bool
	}{{nil, false}, {[]nvml.ProcessInfo{{Pid: 20, UsedGpuMemory: 1}, {Pid: 30, UsedGpuMemory: giB}}, true}} {
		b := newFixture(t)
		mocked(b, 0).GetMPSComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
			return tt.clients, nvml.SUCCESS
		}
		c := b.cards(t)[0]
		check.Equal(t, c.MPS, tt.want, "clients %v: MPS", tt.clients)
		if tt.want && !reflect.DeepEqual(c.Processes, []Process{{10, -1}, {20, giB}, {30, giB}}) {
			t.Errorf("processes %v", c.Processes)
		}
	}
}

func TestOpenReportsWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		ret  nvml.Return
		want error
	}{
		{nvml.ERROR_LIBRARY_NOT_FOUND, ErrNoDriver},
		{nvml.ERROR_DRIVER_NOT_LOADED, ErrNoDriver},
		{nvml.ERROR_LIB_RM_VERSION_MISMATCH, ErrMismatch},
		{nvml.ERROR_NO_PERMISSION, ErrNoPermission},
		{nvml.ERROR_UNKNOWN, nil},
	} {
		b := newFixture(t)
		b.InitFunc = func() nvml.Return { return tt.ret }
		_, err := open(b.Server)
		check.That(check.Must(t), err != nil, "%v: error %v, want %v", tt.ret, err, tt.want)
		if tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%v: error %v, want %v", tt.ret, err, tt.want)
		}
	}
}

func TestCountAndVersionsFail(t *testing.T) {
	b := newFixture(t)
	b.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	text := func() (string, nvml.Return) { return "", nvml.ERROR_NOT_SUPPORTED }
	b.SystemGetDriverVersionFunc, b.SystemGetNVMLVersionFunc = text, text
	b.SystemGetCudaDriverVersionFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d := b.open(t)
	_, err := d.Cards()
	check.ErrorContains(t, err, "count GPUs")
	check.Equal(t, d.Versions(), Versions{})
	b.ShutdownFunc = func() nvml.Return { return nvml.ERROR_UNKNOWN }
	check.That(t, d.Close() != nil, "a failed shutdown is no error")
}
