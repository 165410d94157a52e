package gpucheck

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// monitor tells how full the card is, as its driver's management library
// sees it: beside the driver's own word a second witness.
type monitor struct {
	driver *nvml.Driver
	bus    string
	why    string // not told, and why
	smi    bool   // by nvidia-smi
	fake   bool   // a fake library does not follow the fake driver
}

// openMonitor never fails: a check without NVML says so.
func openMonitor(s Settings, fake bool, bus string) *monitor {
	m := &monitor{bus: bus, fake: fake}
	library := s.NVML
	if fake && library == "" {
		if at := filepath.Join(s.Shim, "nvml", "libnvidia-ml.so.1"); exists(at) {
			library = at
		} else {
			m.why = "no fake management library lies beside the shim"
			return m
		}
	}
	d, err := nvml.Open(nvml.Options{Library: library})
	if err == nil {
		m.driver = d
		return m
	}
	m.why = err.Error()
	if _, missing := exec.LookPath("nvidia-smi"); !fake && missing == nil && errors.Is(err, nvml.ErrNotBuilt) {
		m.smi, m.why = true, ""
	}
	return m
}

func (m *monitor) close() error {
	if m.driver == nil {
		return nil
	}
	return m.driver.Close()
}

// card is the card that the programs use: the one at their device's address.
func (m *monitor) card() (nvml.Card, error) {
	if m.driver == nil {
		return nvml.Card{}, errors.New(m.why)
	}
	cards, err := m.driver.Cards()
	if err != nil {
		return nvml.Card{}, err
	}
	for _, c := range cards {
		if len(cards) == 1 || sameBus(c.Bus, m.bus) {
			return c, nil
		}
	}
	return nvml.Card{}, fmt.Errorf("none of %d cards is at %q", len(cards), m.bus)
}

// sameBus compares PCI addresses whose domain is written with four digits or
// with eight.
func sameBus(a, b string) bool {
	cut := func(s string) string {
		domain, rest, ok := strings.Cut(strings.ToLower(s), ":")
		if !ok {
			return s
		}
		return strings.TrimLeft(domain, "0") + ":" + rest
	}
	return a != "" && cut(a) == cut(b)
}

// used is how much of the card is in use by anybody; false where nobody says.
func (m *monitor) used(ctx context.Context) (int64, bool) {
	if m.smi {
		return m.smiUsed(ctx)
	}
	c, err := m.card()
	if err != nil || m.fake || c.Memory.Used < 0 {
		return 0, false
	}
	return c.Memory.Used, true
}

func (m *monitor) smiUsed(ctx context.Context) (int64, bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	args := []string{"--query-gpu=memory.used", "--format=csv,noheader,nounits"}
	if m.bus != "" {
		args = append(args, "-i", m.bus)
	}
	text, err := exec.CommandContext(ctx, "nvidia-smi", args...).Output()
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	mib, err := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	return mib << 20, err == nil
}

// says tells for the report by what the card was seen.
func (m *monitor) says() string {
	switch {
	case m.smi:
		return "by nvidia-smi: this build has no NVML"
	case m.fake && m.driver != nil:
		return "a fake library, which does not follow the fake driver's memory"
	case m.driver != nil:
		return orUnknown(m.driver.Versions().NVML)
	}
	return "not asked: " + m.why
}
