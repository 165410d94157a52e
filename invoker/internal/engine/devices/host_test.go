package devices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// fakeDriver is a driver with cards, whose watch a test does itself.
type fakeDriver struct {
	cards   []nvml.Card
	refuses error
	watch   nvml.WatchOptions
	stuck   bool // the watcher's Close runs into its bound
	closed  int
}

func (d *fakeDriver) Cards() ([]nvml.Card, error) { return d.cards, d.refuses }
func (d *fakeDriver) Close() error                { d.closed++; return nil }
func (d *fakeDriver) Watch(o nvml.WatchOptions) (closer, error) {
	d.watch = o
	return fakeWatcher{d}, nil
}

func (d *fakeDriver) LimitCgroup(string, string, int64) error { return nvml.ErrNoCgroups }
func (d *fakeDriver) CgroupUse(string, string) (int64, error) { return 0, nvml.ErrNoCgroups }

type fakeWatcher struct{ d *fakeDriver }

func (w fakeWatcher) Close(ctx context.Context) error {
	if w.d.stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func memory(n int64) nvml.Memory { return nvml.Memory{Total: n, Free: n} }

// cards are a whole card, a divided card, a lost card and another whole card.
func cards() []nvml.Card {
	return []nvml.Card{
		{Index: 0, UUID: "GPU-a", Name: "one", Memory: memory(100)},
		{Index: 1, UUID: "GPU-b", Name: "two", Memory: memory(100), MIG: nvml.On, Slices: []nvml.Slice{
			{Index: 0, UUID: "MIG-x", Name: "small", Memory: memory(10)},
			{Index: 2, UUID: "MIG-y", Name: "small", Memory: memory(10)},
		}},
		{Index: 2, UUID: "GPU-c", Name: "three", Memory: memory(100), Lost: "fallen off the bus"},
		{Index: 3, UUID: "GPU-d", Name: "four", Memory: memory(100)},
		{Index: 4, UUID: "GPU-e", Name: "five", Memory: memory(100), Mode: nvml.ModeProhibited},
	}
}

func uuids(devices []gpu.Device) string {
	var all []string
	for i, d := range devices {
		if d.Index != i {
			all = append(all, fmt.Sprintf("index %d at %d", d.Index, i))
		}
		all = append(all, d.UUID)
	}
	return strings.Join(all, " ")
}

func TestDevicesAreChosen(t *testing.T) {
	for _, c := range []struct{ want, devices, refusal string }{
		{"auto", "GPU-a MIG-x MIG-y GPU-d", ""},
		{"none", "", ""},
		{"0", "GPU-a", ""},
		{"GPU-d,0", "GPU-a GPU-d", ""},
		{" 3 , GPU-d", "GPU-d", ""},
		{"1", "MIG-x MIG-y", ""},
		{"GPU-b", "MIG-x MIG-y", ""},
		{"1:2", "MIG-y", ""},
		{"MIG-x", "MIG-x", ""},
		{"7", "", `device "7" is wanted: there is 0 (GPU-a, one), 1:0 (MIG-x, small)`},
		{"0,GPU-zz", "", `device "GPU-zz" is wanted: there is 0 (GPU-a, one)`},
		{"2", "", `device "2" is wanted: fallen off the bus`},
		{"GPU-e", "", `device "GPU-e" is wanted: it cannot be used: it is closed`},
		{"0,", "", `device "" is wanted`},
	} {
		d := &fakeDriver{cards: cards()}
		h, err := openHost(c.want, nil, func() (driver, error) { return d, nil })
		if c.refusal != "" {
			check.ErrorContains(check.Must(t), err, c.refusal, "%q", c.want)
			check.Equal(t, d.closed, 1, "%q", c.want)
			continue
		}
		check.NoError(t, err, "%q", c.want)
		check.Equal(t, uuids(h.Devices), c.devices, "%q", c.want)
		check.NoError(t, h.Close(t.Context()))
		check.That(t, (c.want != None) == (d.closed == 1), "%q: the driver was closed %d times", c.want, d.closed)
	}
}

// Devices that are asked for by name must be there; asked for any, it logs why
// there are none.
func TestWithoutDriver(t *testing.T) {
	for _, c := range []struct {
		why   error
		level string
	}{
		{nvml.ErrNotBuilt, "level=INFO"},
		{fmt.Errorf("start: %w", nvml.ErrNoDriver), "level=INFO"},
		{nvml.ErrMismatch, "level=WARN"},
		{nvml.ErrNoPermission, "level=WARN"},
	} {
		log := &safeBuffer{}
		open := func() (driver, error) { return nil, c.why }
		h, err := openHost(Auto, slog.New(slog.NewTextHandler(log, nil)), open)
		check.NoError(t, err)
		check.Equal(t, len(h.Devices), 0)
		check.Equal(t, log.count(c.level), 1)
		check.Equal(t, log.count("level="), 1)
		check.NoError(t, h.Watch(nil, nil))
		check.NoError(t, h.Close(t.Context()))
		_, err = openHost("0", nil, open)
		check.ErrorIs(t, err, c.why, "a named device")
	}
}

func TestNoCards(t *testing.T) {
	d := &fakeDriver{}
	h, err := openHost(Auto, nil, func() (driver, error) { return d, nil })
	check.NoError(t, err)
	check.Equal(t, len(h.Devices), 0)
	check.Equal(t, d.closed, 1)
	_, err = openHost("0", nil, func() (driver, error) { return d, nil })
	check.ErrorContains(t, err, "there is none")
	d = &fakeDriver{refuses: errors.New("no answer")}
	_, err = openHost(Auto, nil, func() (driver, error) { return d, nil })
	check.ErrorIs(t, err, d.refuses)
	check.Equal(t, d.closed, 1)
}

// A driver that does not return from a call is left as it is.
func TestCloseIsBounded(t *testing.T) {
	d := &fakeDriver{cards: cards(), stuck: true}
	h, err := openHost(Auto, nil, func() (driver, error) { return d, nil })
	check.NoError(t, err)
	check.NoError(t, h.Watch(&observer{}, open(t, nil).Mover))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	check.ErrorIs(t, h.Close(ctx), context.Canceled)
	check.Equal(t, d.closed, 0)
}
