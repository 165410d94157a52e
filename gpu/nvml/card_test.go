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
)

func TestCardsOfADGX(t *testing.T) {
	b := newFixture(t)
	cards := b.cards(t)
	if len(cards) != 8 {
		t.Fatalf("%d cards, want 8", len(cards))
	}
	want := Card{
		Index: 3, Minor: 3, UUID: "GPU-3", Name: "Mock NVIDIA A100-SXM4-40GB", Bus: "0000:03:00.0", Capability: "8.0",
		Memory: Memory{Total: 40*giB - reserved, Free: 30 * giB, Used: 9 * giB},
		Mode:   ModeDefault, Persistence: On, ECC: On, MIG: Off, MIGPending: Off,
		Processes: []Process{{PID: 10, Bytes: -1}, {PID: 20, Bytes: giB}},
	}
	if !reflect.DeepEqual(cards[3], want) {
		t.Errorf("card\n got %+v\nwant %+v", cards[3], want)
	}
	if v := b.open(t).Versions(); v != (Versions{Driver: "550.54.15", CUDA: "12.4", NVML: "12.550.54.15"}) {
		t.Errorf("versions %+v", v)
	}
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
			if len(cards) != 8 {
				t.Fatalf("%d cards, want 8", len(cards))
			}
			c := cards[7]
			if !strings.Contains(c.Name, m.name) || c.Capability != m.capability || c.Bus != "0000:07:00.0" || c.UUID != "GPU-7" || c.Memory.Total == 0 {
				t.Errorf("card %+v", c)
			}
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
			if c.Lost != "" {
				t.Errorf("taken for lost: %s", c.Lost)
			}
			if changed := differences(whole, c); len(changed) > 2 {
				t.Errorf("more than the answer is missing: %v", changed)
			}
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
			if len(cards) != 8 || cards[0].Lost != why(ret) {
				t.Errorf("%s answers %v: lost %q", call, ret, cards[0].Lost)
			}
			if got := Devices(cards); len(got) != 0 {
				t.Errorf("%s answers %v: lost cards are offered: %v", call, ret, got)
			}
		}
	}
}

func TestUnknownMemoryIsNotOffered(t *testing.T) {
	b := newFixture(t)
	b.fail("GetMemoryInfo_v2", nvml.ERROR_NOT_SUPPORTED)
	if m := b.cards(t)[0].Memory; m != (Memory{Total: 40 * giB, Free: 30 * giB, Used: 10 * giB}) {
		t.Errorf("memory by the old call: %+v", m)
	}
	b.fail("GetMemoryInfo", nvml.ERROR_NOT_SUPPORTED)
	cards := b.cards(t)
	if cards[0].Memory.Total >= 0 || len(Devices(cards)) != 0 {
		t.Errorf("memory %+v, devices %v", cards[0].Memory, Devices(cards))
	}
}

// TestOldLibrary: functions that the loaded library lacks are not called.
func TestOldLibrary(t *testing.T) {
	b := newFixture(t)
	b.missing = []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMigMode"}
	c := b.cards(t)[0]
	if c.Memory.Total != 40*giB || c.MIG != Unknown || c.Lost != "" {
		t.Errorf("card %+v", c)
	}
	if len(mocked(b, 0).GetMemoryInfo_v2Calls()) != 0 {
		t.Error("a function was called that the library lacks: the process would end")
	}
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
	if cards[2].Lost == "" || cards[1].Lost != "" {
		t.Errorf("cards %+v", cards[1:3])
	}
	if d := Devices(cards)[2]; d.Card != 3 {
		t.Errorf("card 3 is named %d beside a lost one", d.Card)
	}
	var uuids []string
	for i, d := range Devices(cards) {
		if d.Index != i {
			t.Errorf("device %v has the place %d", d, i)
		}
		uuids = append(uuids, d.UUID)
	}
	if got := strings.Join(uuids, " "); got != "GPU-0 GPU-1 GPU-3 GPU-4 GPU-5 GPU-6 GPU-7" {
		t.Errorf("devices %s", got)
	}
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
	if cards[1].MIG != On || !reflect.DeepEqual(cards[1].Slices, want) {
		t.Errorf("card %+v", cards[1])
	}
	devices := Devices(cards)
	if len(devices) != 8 || devices[1].UUID != "MIG-1-0" || devices[1].Sharing != gpu.MIGSlice || devices[2].UUID != "MIG-1-1" ||
		devices[1].MemoryBytes != 5*giB || devices[3].UUID != "GPU-3" || devices[3].Sharing != gpu.Whole || devices[2].Card != 1 || devices[3].Card != 3 {
		t.Errorf("devices %+v", devices)
	}
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
		if cards[0].Mode != tt.want || len(Devices(cards)) != tt.offered {
			t.Errorf("mode %d: %v, %d devices", tt.mode, cards[0].Mode, len(Devices(cards)))
		}
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
		if c.MPS != tt.want {
			t.Errorf("clients %v: MPS %v", tt.clients, c.MPS)
		}
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
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
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
	if _, err := d.Cards(); err == nil || !strings.Contains(err.Error(), "count GPUs") {
		t.Errorf("error %v", err)
	}
	if v := d.Versions(); v != (Versions{}) {
		t.Errorf("versions %+v", v)
	}
	b.ShutdownFunc = func() nvml.Return { return nvml.ERROR_UNKNOWN }
	if err := d.Close(); err == nil {
		t.Error("a failed shutdown is no error")
	}
}
