package invoker

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// parallelRemovals limits how many containers of an earlier process are removed at once. More
// would not be faster and would slow down runs.
const parallelRemovals = 4

// adopted is a container of an earlier process that may be adopted.
type adopted struct {
	leftover container.Leftover
	state    container.StateFile
	key      string
	spec     container.Spec
	ctr      *actionContainer // once it is adopted

	// The device of a GPU container, as its state file shows.
	device  gpu.Device
	assumed *gpu.MemoryReport // nil: it reports itself
}

// adoptLeftovers adopts the usable containers of an earlier process and removes the others in
// the background. It is called before the dispatcher's loop begins.
func (iv *Invoker) adoptLeftovers() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	left, err := iv.ports.Daemon.Leftovers(ctx, iv.settings.Prefix)
	if err != nil {
		return fmt.Errorf("list containers of an earlier process: %w", err)
	}
	d := iv.dispatch
	var states []container.StateFile
	if d.stateFiles != nil {
		states = d.stateFiles.disk.Read()
	}
	d.named = highest(iv.settings.Prefix, left)
	containers, unfit := d.judge(left, states)
	containers = d.adoptInEngine(ctx, containers, unfit)
	now := d.clock()
	taken := 0
	for _, ad := range d.affordable(containers, unfit) {
		if why := d.adopt(ctx, now, ad); why != nil {
			unfit[ad.leftover.ID] = why
			continue
		}
		taken++
	}
	d.finishAdoption(now)
	d.discardLeft(left, unfit, states)
	iv.metrics.adopted.Add(float64(taken))
	iv.metrics.discarded.Add(float64(len(unfit)))
	if len(left) > 0 {
		iv.log.Info("containers of an earlier process", "adopted", taken, "removed", len(unfit), "because", reasons(unfit))
	}
	return nil
}

// highest returns the largest number in the names of containers. New containers get larger
// numbers.
func highest(prefix string, left []container.Leftover) (most int64) {
	for _, l := range left {
		number, _, _ := strings.Cut(strings.TrimPrefix(l.Name, prefix), "_")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && n < 1<<62 {
			most = max(most, n)
		}
	}
	return most
}

// The reasons for not adopting a container.
var (
	errUnknown  = errors.New("it has no state file")
	errBusyThen = errors.New("it was in use when that process ended")
	errEnded    = errors.New("it has ended")
	errNewImage = errors.New("its kind has another image now")
	errNoDevice = errors.New("its device is not there any more, or cannot be adopted")
	errNoMemory = errors.New("there is no memory for it")
)

// judge separates the containers that may be adopted from the others, by their state files.
// The containers to adopt are in the order of their last use.
func (d *dispatcher) judge(left []container.Leftover, states []container.StateFile) (containers []adopted, unfit map[container.ID]error) {
	known, unfit := map[container.ID]container.StateFile{}, map[container.ID]error{}
	for _, state := range states {
		known[state.ID] = state
	}
	for _, l := range left {
		state, ok := known[l.ID]
		ad := adopted{leftover: l, state: state}
		key, err := hex.DecodeString(state.Key)
		ad.key = string(key)
		switch image, managed := d.settings.Images(state.Kind); {
		case !ok || state.Name != l.Name || l.Digest == "" || err != nil:
			unfit[l.ID] = errUnknown
		case state.Activity != container.Idle && state.Activity != container.Pausing:
			unfit[l.ID] = errBusyThen
		case !l.Alive || l.Addr == "":
			unfit[l.ID] = errEnded
		case managed && !state.Pull && state.Image != image:
			unfit[l.ID] = errNewImage
		default:
			ad.spec = d.settings.spec(activation.Exec{Kind: state.Kind, Image: state.Image, Pull: state.Pull}, state.MemoryMB)
			ad.spec.Name = state.Name
			if err := d.prepareAdopted(&ad); err != nil {
				unfit[l.ID] = err
				continue
			}
			containers = append(containers, ad)
		}
	}
	slices.SortStableFunc(containers, func(a, b adopted) int {
		return cmp.Or(a.state.Since.Compare(b.state.Since), strings.Compare(a.state.Name, b.state.Name))
	})
	return containers, unfit
}

// adoptInEngine makes the engine adopt containers and returns the adopted ones.
func (d *dispatcher) adoptInEngine(ctx context.Context, containers []adopted, unfit map[container.ID]error) []adopted {
	if len(containers) == 0 {
		return nil
	}
	left, specs := make([]container.Leftover, len(containers)), make([]container.Spec, len(containers))
	for i, ad := range containers {
		left[i], specs[i] = ad.leftover, ad.spec
	}
	errs := d.daemon.Adopt(ctx, left, specs)
	kept := containers[:0]
	for i, ad := range containers {
		if errs[i] == nil {
			kept = append(kept, ad)
			continue
		}
		unfit[ad.leftover.ID] = errs[i]
		d.abandon(ad)
	}
	return kept
}

// affordable returns the containers for which there is enough memory. If there is not enough
// for all, it prefers the most recently used.
func (d *dispatcher) affordable(containers []adopted, unfit map[container.ID]error) []adopted {
	left := d.settings.Pool.MemoryMB
	for i := len(containers) - 1; i >= 0; i-- {
		ad := containers[i]
		need := ad.state.MemoryMB
		if ad.state.GPU != nil {
			need = ad.state.GPU.HostMB
		}
		if left -= need; left < 0 {
			for _, ad := range containers[:i+1] {
				unfit[ad.leftover.ID] = errNoMemory
				d.abandon(ad)
			}
			return containers[i+1:]
		}
	}
	return containers
}

// adopt gives a container to the pool or to the GPU scheduler. It returns an error if the
// container cannot be adopted.
func (d *dispatcher) adopt(ctx context.Context, now time.Duration, ad adopted) error {
	pinned := d.pins.events != nil && ad.state.Pin != ""
	if ad.state.Activity == container.Pausing || pinned && !ad.leftover.Paused { // it is not known whether a Pausing container is paused
		if err := d.engine.Pause(ctx, ad.leftover.ID); err != nil {
			d.abandon(ad)
			return fmt.Errorf("pause it: %w", err)
		}
		ad.leftover.Paused = true
	}
	ctr := d.makeContainer(ad.spec)
	ctr.handle = container.Handle{ID: ad.leftover.ID, Name: ad.leftover.Name, Addr: ad.leftover.Addr}
	ctr.key, ctr.state.kept, ctr.state.since = ad.key, true, ad.state.Since
	ad.ctr = ctr
	if ad.state.GPU != nil {
		if !d.adoptDevice(now, &ad) {
			return errNoMemory
		}
	} else {
		slot, ok := d.pool.Adopt(now, d.pins.adopted(ad))
		if !ok {
			d.pins.lose(now, ctr)
			return errNoMemory
		}
		ctr.slot = slot
		d.containers[slot] = ctr
	}
	ctr.client = d.dial(ad.leftover.Addr, max(ad.state.Concurrency, 1))
	if ad.state.Activity == container.Pausing {
		d.stateFiles.setActivity(ctr, container.Idle)
	}
	d.watch(now, ctr)
	return nil
}

// discardLeft removes the containers that are not adopted, in the background. Their memory
// counts until they are gone.
func (d *dispatcher) discardLeft(left []container.Leftover, unfit map[container.ID]error, states []container.StateFile) {
	there := map[string]bool{}
	slots := make(chan struct{}, parallelRemovals)
	for _, l := range left {
		if unfit[l.ID] == nil {
			there[l.Name] = true
			continue
		}
		slot := d.pool.AddRemoving(l.MemoryMB)
		ctr := &actionContainer{name: l.Name, handle: container.Handle{ID: l.ID, Name: l.Name}}
		d.goWork(func(ctx context.Context) {
			slots <- struct{}{}
			defer func() { <-slots }()
			d.removeUntilGone(ctx, ctr)
			d.post(gone{slot: slot})
		})
	}
	for _, state := range states {
		if !there[state.Name] {
			d.stateFiles.disk.Drop(state.Name)
		}
	}
}

// reasons counts why containers were not adopted, for the log.
func reasons(unfit map[container.ID]error) string {
	count := map[string]int{}
	for _, why := range unfit {
		count[why.Error()]++
	}
	var all []string
	for _, why := range slices.Sorted(maps.Keys(count)) {
		all = append(all, fmt.Sprintf("%d: %s", count[why], why))
	}
	return strings.Join(all, "; ")
}

// identity names a device over restarts.
func identity(d gpu.Device) string { return cmp.Or(d.UUID, d.String()) }
