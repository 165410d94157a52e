package nvml

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestSMIStandsIn(t *testing.T) {
	cards, versions, err := readSMI("0, GPU-a, NVIDIA H200, 00000000:1A:00.0, 143771, 143000, 700, Enabled, Default, Disabled, Disabled, 580.95.05\n" +
		"1, GPU-b, Tesla T4, 00000000:1B:00.0, [N/A], 1, 1, Disabled, Exclusive_Process, [N/A], [N/A], 580.95.05\n")
	check.NoError(t, err)
	check.Equal(t, versions.Driver, "580.95.05")
	want := []Card{
		{Minor: -1, UUID: "GPU-a", Name: "NVIDIA H200", Bus: "00000000:1A:00.0", Memory: Memory{Total: 143771 << 20, Free: 143000 << 20, Used: 700 << 20},
			Persistence: On, Mode: ModeDefault, MIG: Off, MIGPending: Off},
		{Index: 1, Minor: -1, UUID: "GPU-b", Name: "Tesla T4", Bus: "00000000:1B:00.0", Memory: Memory{Total: -1, Free: 1 << 20, Used: 1 << 20},
			Persistence: Off, Mode: ModeExclusive, MIG: Unknown, MIGPending: Unknown},
	}
	check.DeepEqual(t, cards, want)
	for _, bad := range []string{"", "No devices were found\n", "x, GPU-a, n, b, 1, 1, 1, Enabled, Default, Disabled, Disabled, 580\n", "0, \"a\n"} {
		cards, _, err := readSMI(bad)
		check.That(t, err != nil, "%q gives %+v", bad, cards)
	}
}

func FuzzSMI(f *testing.F) {
	f.Add("0, GPU-a, NVIDIA H200, 0:1, 143771, 143000, 700, Enabled, Default, Disabled, Disabled, 580.95.05\n")
	f.Add("0, a, b, c, -1, 99999999999999999999, 1, , Prohibited, , , \n")
	f.Fuzz(func(t *testing.T, text string) {
		cards, _, err := readSMI(text)
		if err != nil {
			return
		}
		for _, c := range cards {
			check.AtLeast(t, c.Memory.Total, -1)
			check.AtLeast(t, c.Memory.Free, -1)
		}
	})
}
