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

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// parallelRemovals is how many containers of an earlier process are removed at
// once; engines do not get faster with more, and runs want their part.
const parallelRemovals = 4

// heir is a container of an earlier process that is to be taken over.
type heir struct {
	left container.Left
	note container.Note
	key  string
	spec container.Spec
	gpu  *gpuHeir // nil in the CPU lane
}

// inherit takes over what an earlier process left and what can be used as it
// is, and has the rest removed beside the work. It is called before the
// dispatcher's loop begins.
func (iv *Invoker) inherit(keeper Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpTime)
	defer cancel()
	lefts, err := keeper.Left(ctx, iv.settings.Prefix)
	if err != nil {
		return fmt.Errorf("look for containers of an earlier process: %w", err)
	}
	d := iv.dispatch
	var notes []container.Note
	if d.tabs != nil {
		notes = d.tabs.notes.Read()
	}
	d.named = highest(iv.settings.Prefix, lefts)
	heirs, unfit := d.judge(lefts, notes)
	heirs = d.claim(ctx, keeper, heirs, unfit)
	now := d.clock()
	taken := 0
	for _, h := range d.affordable(heirs, unfit) {
		if why := d.adopt(ctx, now, h); why != nil {
			unfit[h.left.ID] = why
			continue
		}
		taken++
	}
	d.settleHeirs(now)
	d.discardLeft(lefts, unfit, notes)
	iv.metrics.inherited.Add(float64(taken))
	iv.metrics.discarded.Add(float64(len(unfit)))
	if len(lefts) > 0 {
		iv.log.Info("containers of an earlier process", "adopted", taken, "removed", len(unfit), "because", reasons(unfit))
	}
	return nil
}

// highest is the largest number in the names of containers: new ones get larger
// ones.
func highest(prefix string, lefts []container.Left) (most int64) {
	for _, l := range lefts {
		number, _, _ := strings.Cut(strings.TrimPrefix(l.Name, prefix), "_")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil && n < 1<<62 {
			most = max(most, n)
		}
	}
	return most
}

// Why a container is not taken over.
var (
	errNoNote   = errors.New("nothing is known of it")
	errBusyThen = errors.New("it was in use when that process ended")
	errEnded    = errors.New("it has ended")
	errNewImage = errors.New("its kind has another image now")
	errNoDevice = errors.New("its device is not there any more, or cannot be taken over")
	errNoPlace  = errors.New("there is no place for it")
)

// judge tells containers that may be taken over, by what is known of them, from
// the others. The former come in the order in which they were used last.
func (d *dispatcher) judge(lefts []container.Left, notes []container.Note) (heirs []heir, unfit map[container.ID]error) {
	known, unfit := map[container.ID]container.Note{}, map[container.ID]error{}
	for _, n := range notes {
		known[n.ID] = n
	}
	for _, l := range lefts {
		n, ok := known[l.ID]
		h := heir{left: l, note: n}
		key, err := hex.DecodeString(n.Key)
		h.key = string(key)
		switch image, managed := d.settings.Images(n.Kind); {
		case !ok || n.Name != l.Name || l.Seal == "" || err != nil:
			unfit[l.ID] = errNoNote
		case n.Rest != container.Resting && n.Rest != container.Pausing:
			unfit[l.ID] = errBusyThen
		case !l.Alive || l.Addr == "":
			unfit[l.ID] = errEnded
		case managed && !n.Pull && n.Image != image:
			unfit[l.ID] = errNewImage
		default:
			h.spec = d.settings.spec(n.Name, n.Kind, n.Image, n.Pull, n.MemoryMB)
			if err := d.prepareHeir(&h); err != nil {
				unfit[l.ID] = err
				continue
			}
			heirs = append(heirs, h)
		}
	}
	slices.SortStableFunc(heirs, func(a, b heir) int {
		return cmp.Or(a.note.Since.Compare(b.note.Since), strings.Compare(a.note.Name, b.note.Name))
	})
	return heirs, unfit
}

// claim has the engine take containers over, and gives those that it does.
func (d *dispatcher) claim(ctx context.Context, keeper Keeper, heirs []heir, unfit map[container.ID]error) []heir {
	if len(heirs) == 0 {
		return nil
	}
	lefts, specs := make([]container.Left, len(heirs)), make([]container.Spec, len(heirs))
	for i, h := range heirs {
		lefts[i], specs[i] = h.left, h.spec
	}
	errs := keeper.Adopt(ctx, lefts, specs)
	kept := heirs[:0]
	for i, h := range heirs {
		if errs[i] == nil {
			kept = append(kept, h)
			continue
		}
		unfit[h.left.ID] = errs[i]
		d.disown(h)
	}
	return kept
}

// affordable gives the containers that there is memory for, those that were used
// last if not for all.
func (d *dispatcher) affordable(heirs []heir, unfit map[container.ID]error) []heir {
	left := d.settings.Pool.MemoryMB
	for i := len(heirs) - 1; i >= 0; i-- {
		h := heirs[i]
		need := h.note.MemoryMB
		if h.note.GPU != nil {
			need = h.note.GPU.HostMB
		}
		if left -= need; left < 0 {
			for _, h := range heirs[:i+1] {
				unfit[h.left.ID] = errNoPlace
				d.disown(h)
			}
			return heirs[i+1:]
		}
	}
	return heirs
}

// adopt gives a container its place. The error says why there is none.
func (d *dispatcher) adopt(ctx context.Context, now time.Duration, h heir) error {
	if h.note.Rest == container.Pausing { // whether that was done nobody knows: now it is
		if err := d.engine.Pause(ctx, h.left.ID); err != nil {
			d.disown(h)
			return fmt.Errorf("pause it: %w", err)
		}
		h.left.Paused = true
	}
	b := d.ownBox(h.spec)
	b.handle = container.Handle{ID: h.left.ID, Name: h.left.Name, Addr: h.left.Addr}
	b.key, b.tab.kept, b.tab.rests, b.tab.since = h.key, true, true, h.note.Since
	if h.gpu != nil {
		if !d.inheritDevice(now, h, b) {
			return errNoPlace
		}
	} else {
		slot, ok := d.pool.Adopt(now, container.Heirloom{
			Key: h.key, Kind: h.note.Kind, MemoryMB: h.note.MemoryMB, Concurrency: max(h.note.Concurrency, 1),
			Paused: h.left.Paused, Idle: max(time.Since(h.note.Since), 0),
		})
		if !ok {
			return errNoPlace
		}
		b.slot = slot
		d.boxes[slot] = b
		d.shown.enter(b)
	}
	b.talk = d.dial(h.left.Addr, max(h.note.Concurrency, 1))
	if h.note.Rest == container.Pausing {
		d.tabs.mark(b, container.Resting)
	}
	d.enliven(now, b)
	return nil
}

// discardLeft has containers removed that nobody takes over. Their memory counts
// until they are gone.
func (d *dispatcher) discardLeft(lefts []container.Left, unfit map[container.ID]error, notes []container.Note) {
	there := map[string]bool{}
	places := make(chan struct{}, parallelRemovals)
	for _, l := range lefts {
		if unfit[l.ID] == nil {
			there[l.Name] = true
			continue
		}
		slot := d.pool.Leaving(l.MemoryMB)
		b := &box{name: l.Name, handle: container.Handle{ID: l.ID, Name: l.Name}}
		d.goWork(func(ctx context.Context) {
			places <- struct{}{}
			defer func() { <-places }()
			d.removeUntilGone(ctx, b)
			d.post(goneEvent{slot})
		})
	}
	for _, n := range notes {
		if !there[n.Name] {
			d.tabs.notes.Drop(n.Name)
		}
	}
}

// reasons counts why containers were not taken over, for the log.
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
