package doctor

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// smiFields are what nvidia-smi is asked for where this build cannot ask NVML.
const smiFields = "index,uuid,name,pci.bus_id,memory.total,memory.free,memory.used," +
	"persistence_mode,compute_mode,mig.mode.current,mig.mode.pending,driver_version"

// askSMI describes the devices by nvidia-smi, which comes with the driver. It
// does not list slices and processes.
func (m *Machine) askSMI(ctx context.Context) (GPU, error) {
	text, err := m.Command(ctx, nil, "nvidia-smi", "--query-gpu="+smiFields, "--format=csv,noheader,nounits")
	if err != nil {
		return GPU{}, fmt.Errorf("ask nvidia-smi: %w", err)
	}
	return readSMI(text)
}

func readSMI(text string) (GPU, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, len(strings.Split(smiFields, ","))
	lines, err := r.ReadAll()
	if err != nil {
		return GPU{}, fmt.Errorf("read answer of nvidia-smi: %w", err)
	}
	if len(lines) == 0 {
		return GPU{}, errors.New("nvidia-smi lists no device")
	}
	g := GPU{By: "nvidia-smi"}
	for _, l := range lines {
		index, err := strconv.Atoi(l[0])
		if err != nil {
			return GPU{}, fmt.Errorf("read answer of nvidia-smi: index %q", l[0])
		}
		g.Versions.Driver = l[11]
		g.Cards = append(g.Cards, nvml.Card{
			Index: index, Minor: -1, UUID: l[1], Name: l[2], Bus: l[3],
			Memory:      nvml.Memory{Total: mebibytes(l[4]), Free: mebibytes(l[5]), Used: mebibytes(l[6])},
			Persistence: enabled(l[7]), Mode: computeMode(l[8]), MIG: enabled(l[9]), MIGPending: enabled(l[10]),
		})
	}
	return g, nil
}

// mebibytes reads a number without its unit; "[N/A]" is -1.
func mebibytes(s string) int64 {
	const most = 1 << 40
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most {
		return -1
	}
	return n << 20
}

func enabled(s string) nvml.Switch {
	switch s {
	case "Enabled":
		return nvml.On
	case "Disabled":
		return nvml.Off
	}
	return nvml.Unknown
}

func computeMode(s string) nvml.ComputeMode {
	switch s {
	case "Default":
		return nvml.ModeDefault
	case "Exclusive_Process", "Exclusive_Thread":
		return nvml.ModeExclusive
	case "Prohibited":
		return nvml.ModeProhibited
	}
	return nvml.ModeUnknown
}
