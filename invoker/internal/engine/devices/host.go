package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
)

// The values for devices that are not a list.
const (
	// Auto takes every device that the driver has, and none where there is no
	// driver.
	Auto = "auto"
	// None takes no device and does not open the driver.
	None = "none"
)

// Host is the driver of this host and the devices that were chosen. A host
// without either is one, too.
type Host struct {
	Devices []gpu.Device

	driver  driver // nil: none
	watcher closer
	log     *slog.Logger
}

// driver is the part of *nvml.Driver that Host uses.
type driver interface {
	Cards() ([]nvml.Card, error)
	Watch(o nvml.WatchOptions) (closer, error)
	Close() error
	cgroups
}

// cgroups is the part of the driver that limits the memory of control groups.
type cgroups interface {
	LimitCgroup(uuid, path string, bytes int64) error
	CgroupUse(uuid, path string) (int64, error)
}

type closer interface {
	Close(ctx context.Context) error
}

// real is NVIDIA's driver.
type real struct{ *nvml.Driver }

func (r real) Watch(o nvml.WatchOptions) (closer, error) { return r.Driver.Watch(o) }

// OpenHost finds the configured devices: Auto, None, or a comma-separated list of
// UUIDs and of indexes as nvidia-smi counts them, a slice of a divided card as
// CARD:SLICE. Close ends it.
func OpenHost(want string, o nvml.Options, log *slog.Logger) (*Host, error) {
	return openHost(want, log, func() (driver, error) {
		d, err := nvml.Open(o)
		if err != nil {
			return nil, err
		}
		return real{d}, nil
	})
}

func openHost(want string, log *slog.Logger, open func() (driver, error)) (*Host, error) {
	h := &Host{log: cmp.Or(log, slog.New(slog.DiscardHandler))}
	if want == None {
		return h, nil
	}
	d, err := open()
	if err != nil {
		return h, h.without(want, err)
	}
	cards, err := d.Cards()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask for GPUs: %w", err), d.Close())
	}
	if h.Devices, err = Choose(want, cards); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	h.driver = d
	h.logCards(cards)
	if len(h.Devices) == 0 {
		h.driver = nil
		return h, d.Close()
	}
	return h, nil
}

// without judges a driver that cannot be opened: an operator who asked for devices by name
// must have them.
func (h *Host) without(want string, err error) error {
	switch {
	case want != Auto:
		return fmt.Errorf("devices %s are wanted: %w", want, err)
	case errors.Is(err, nvml.ErrNotBuilt), errors.Is(err, nvml.ErrNoDriver):
		h.log.Info("no GPU: actions that want one are forwarded or refused", "reason", err)
	default:
		h.log.Warn("GPUs cannot be used", "error", err)
	}
	return nil
}

// logCards logs the devices that were found, and the cards that are not usable.
func (h *Host) logCards(cards []nvml.Card) {
	for _, d := range h.Devices {
		h.log.Info("gpu", "device", d.String(), "uuid", d.UUID, "memory", d.MemoryBytes, "sharing", d.Sharing.String())
	}
	for _, c := range cards {
		if c.Lost != "" {
			h.log.Warn("gpu is not usable", "index", c.Index, "uuid", c.UUID, "reason", c.Lost)
		}
	}
}

// Choose returns the cards that the setting names, in the order of the host. A card that
// the host lacks, or that is lost, is an error.
func Choose(want string, cards []nvml.Card) ([]gpu.Device, error) {
	all := nvml.Devices(cards)
	switch want {
	case Auto:
		return all, nil
	case None:
		return nil, nil
	}
	names := namesOf(cards)
	var chosen []gpu.Device
	wanted := map[string]bool{}
	for word := range strings.SplitSeq(want, ",") {
		word = strings.TrimSpace(word)
		uuids, ok := names[word]
		usable := slices.ContainsFunc(all, func(d gpu.Device) bool { return slices.Contains(uuids, d.UUID) })
		if !ok || !usable {
			return nil, fmt.Errorf("device %q is wanted: %s", word, absent(word, ok, cards))
		}
		for _, uuid := range uuids {
			wanted[uuid] = true
		}
	}
	for _, d := range all {
		if wanted[d.UUID] {
			d.Index = len(chosen)
			chosen = append(chosen, d)
		}
	}
	return chosen, nil
}

// namesOf maps the names that an operator may use for devices to their UUIDs. A divided
// card's own names mean all its slices.
func namesOf(cards []nvml.Card) map[string][]string {
	names := map[string][]string{}
	for _, c := range cards {
		index, own := strconv.Itoa(c.Index), []string{c.UUID}
		if c.MIG == nvml.On {
			own = nil
			for _, s := range c.Slices {
				own = append(own, s.UUID)
				names[s.UUID] = []string{s.UUID}
				names[index+":"+strconv.Itoa(s.Index)] = []string{s.UUID}
			}
		}
		names[index] = own
		if c.UUID != "" {
			names[c.UUID] = own
		}
	}
	return names
}

// absent is the error text for a missing device. It lists the existing devices.
func absent(word string, known bool, cards []nvml.Card) string {
	var there []string
	for _, c := range cards {
		index := strconv.Itoa(c.Index)
		if known && c.Lost != "" && (word == index || word == c.UUID) {
			return c.Lost
		}
		if c.MIG != nvml.On {
			there = append(there, fmt.Sprintf("%s (%s, %s)", index, c.UUID, c.Name))
		}
		for _, s := range c.Slices {
			there = append(there, fmt.Sprintf("%s:%d (%s, %s)", index, s.Index, s.UUID, s.Name))
		}
	}
	if known {
		return "it cannot be used: it is closed to all processes, or divided into nothing"
	}
	if len(there) == 0 {
		return "there is none"
	}
	return "there is " + strings.Join(there, ", ")
}
