package nvml

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// smiFields lists the fields that are read from nvidia-smi in builds without NVML.
const smiFields = "index,uuid,name,pci.bus_id,memory.total,memory.free,memory.used," +
	"persistence_mode,compute_mode,mig.mode.current,mig.mode.pending,driver_version"

// AskSMI describes the cards by nvidia-smi, which comes with the driver; run runs a
// program and returns its output. It does not list slices and processes.
func AskSMI(ctx context.Context, run func(ctx context.Context, name string, args ...string) (string, error)) ([]Card, Versions, error) {
	text, err := run(ctx, "nvidia-smi", "--query-gpu="+smiFields, "--format=csv,noheader,nounits")
	if err != nil {
		return nil, Versions{}, fmt.Errorf("ask nvidia-smi: %w", err)
	}
	return readSMI(text)
}

func readSMI(text string) (cards []Card, v Versions, err error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, len(strings.Split(smiFields, ","))
	lines, err := r.ReadAll()
	if err == nil && len(lines) == 0 {
		err = errors.New("it lists no device")
	}
	for _, l := range lines {
		index, bad := strconv.Atoi(l[0])
		err = errors.Join(err, bad)
		v.Driver = l[11]
		cards = append(cards, Card{
			Index: index, Minor: -1, UUID: l[1], Name: l[2], Bus: l[3],
			Memory:      Memory{Total: mebibytes(l[4]), Free: mebibytes(l[5]), Used: mebibytes(l[6])},
			Persistence: smiSwitch(l[7]), Mode: smiMode(l[8]), MIG: smiSwitch(l[9]), MIGPending: smiSwitch(l[10]),
		})
	}
	if err != nil {
		return nil, Versions{}, fmt.Errorf("read answer of nvidia-smi: %w", err)
	}
	return cards, v, nil
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

func smiSwitch(s string) Switch {
	switch s {
	case "Enabled":
		return On
	case "Disabled":
		return Off
	}
	return Unknown
}

func smiMode(s string) ComputeMode {
	switch s {
	case "Default":
		return ModeDefault
	case "Exclusive_Process", "Exclusive_Thread":
		return ModeExclusive
	case "Prohibited":
		return ModeProhibited
	}
	return ModeUnknown
}
