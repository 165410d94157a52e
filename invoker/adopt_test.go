package invoker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// survivors is a fixture with the things that outlive an invoker: its containers and their
// state files.
type survivors struct {
	*fixture
	fakeDaemon

	mu       sync.Mutex
	lefts    map[container.ID]container.Leftover
	saved    map[string]container.StateFile
	refuse   map[container.ID]error // by Adopt
	removals []container.ID
}

func newSurvivors(t testing.TB) *survivors {
	e := &survivors{fixture: newFixture(t), lefts: map[container.ID]container.Leftover{}, saved: map[string]container.StateFile{}, refuse: map[container.ID]error{}}
	e.engine, e.daemon, e.states = e, e, e
	return e
}

// process returns the fixture of another process, with the containers and state files of this
// one.
func (e *survivors) process() *survivors {
	next := newSurvivors(e.t)
	next.actions = e.actions
	next.lefts, next.saved = maps.Clone(e.lefts), maps.Clone(e.saved)
	return next
}

func (e *survivors) Create(ctx context.Context, spec container.Spec) (container.Handle, error) {
	h, err := e.fixture.Create(ctx, spec)
	h.ID = container.ID("id of " + spec.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	_, twice := e.lefts[h.ID]
	check.That(e.t, !twice, "container %s is made twice", spec.Name)
	e.lefts[h.ID] = container.Leftover{ID: h.ID, Name: spec.Name, Addr: h.Addr, Alive: true, MemoryMB: spec.MemoryMB, Digest: "s"}
	return h, err
}

func (e *survivors) Remove(_ context.Context, id container.ID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.lefts, id)
	e.removals = append(e.removals, id)
	return nil
}

func (e *survivors) CleanUp(context.Context, string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.lefts)
	return nil
}

func (e *survivors) Leftovers(context.Context, string) ([]container.Leftover, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.lefts)), nil
}

func (e *survivors) Adopt(_ context.Context, left []container.Leftover, _ []container.Spec) []error {
	errs := make([]error, len(left))
	for i, l := range left {
		errs[i] = e.refuse[l.ID]
	}
	return errs
}

func (e *survivors) Write(state container.StateFile) {
	e.change(state.Name, func(old *container.StateFile) { *old = state })
}
func (e *survivors) SetActivity(name string, is container.Activity, since time.Time, h container.DeviceMemory) {
	e.change(name, func(n *container.StateFile) { n.Activity, n.Since, n.DeviceMemory = is, since, h })
}

func (e *survivors) change(name string, how func(*container.StateFile)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	state := e.saved[name]
	how(&state)
	e.saved[name] = state
}

func (e *survivors) Drop(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.saved, name)
}

func (e *survivors) Read() []container.StateFile {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.saved))
}

// idle counts the state files of idle containers.
func (e *survivors) idle() (n int) {
	for _, state := range e.Read() {
		if state.Activity == container.Idle {
			n++
		}
	}
	return n
}

// TestNextProcessAdopts: containers that are idle at an orderly stop serve the
// next process, prewarmed ones too; names go on where they ended.
func TestNextProcessAdopts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSurvivors(t)
		e.follows = true
		e.action("f", nil)
		s := e.settings()
		s.Pool.StemCells = []container.StemCell{{Kind: "nodejs:20", MemoryMB: 128, Count: 1}}
		_, stop := e.start(s)
		e.invokeAndWait("f", 0)
		stop()
		check.Equal(check.Must(t), e.made, 2)
		check.Equal(check.Must(t), len(e.lefts), 2)
		check.Equal(check.Must(t), e.idle(), 2)
		next := e.process()
		iv, stop := next.start(s)
		next.ok(next.invokeAndWait("f", time.Second))
		next.action("g", nil)
		next.invokeAndWait("g", time.Second)
		check.Equal(t, e.status(iv).Pool.UsedMB, 128+256+256)
		next.mu.Lock()
		for _, spec := range next.created {
			check.That(t, strings.HasPrefix(spec.Name, s.Prefix+"3_"), "a new container is named %s", spec.Name)
		}
		next.mu.Unlock()
		stop() // for good
		check.Equal(t, len(next.lefts)+len(next.saved), 0, "left: %v, %v", next.lefts, next.saved)
	})
}

// TestStateFilesNeverPromiseWhatRuns: whenever something runs in a container, however
// many do at once, its state file does not show it as idle; when all have left, it
// does.
func TestStateFilesNeverPromiseWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSurvivors(t)
		e.action("f", func(a *activation.Action) { a.Limits.Concurrency = 4 })
		e.run = func(int, []byte) proxy.Exchange {
			check.AtMost(t, e.idle(), 0, "are idle while one runs")
			time.Sleep(time.Second)
			return answer(200, `{}`)
		}
		s := e.settings()
		s.Bounds.Concurrency.Max = 4
		s.Pool.MemoryMB = 256 // one container
		_, stop := e.start(s)
		for i := range 40 {
			e.invoke("f", nil)
			time.Sleep(time.Duration(i) * 20 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		check.Equal(t, e.idle(), 1, "are idle at the end")
		stop()
	})
}

// TestContainerIsIdleAtOnce: the state file of a container shows that it is idle, and
// since when, as soon as its last run has left, however soon it is used again.
func TestContainerIsIdleAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSurvivors(t)
		states := newStateFiles(e)
		ctr := &actionContainer{name: "wsk00_1_a", key: "k"}
		states.prewarmed(ctr)
		for range 3 {
			states.runBegins(ctr)
			states.runBegins(ctr)
			left := &run{ctr: ctr, pending: &pending{key: "k"}}
			states.runLeft(left)
			check.Equal(t, e.idle(), 0, "it is idle while one runs")
			time.Sleep(time.Millisecond)
			states.runLeft(left)
			check.Equal(t, e.idle(), 1, "it is not idle")
			check.That(t, e.Read()[0].Since.Equal(time.Now()), "it is not idle: %+v", e.Read())
			time.Sleep(time.Millisecond)
		}
	})
}

// TestDoubtfulContainerIsRemoved: a container is adopted only if all known facts allow it.
func TestDoubtfulContainerIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSurvivors(t)
		e.follows = true
		cases := map[string]func(*container.Leftover, *container.StateFile){
			"fit":     func(*container.Leftover, *container.StateFile) {},
			"pausing": func(_ *container.Leftover, n *container.StateFile) { n.Activity = container.Pausing },
			"busy":    func(_ *container.Leftover, n *container.StateFile) { n.Activity = container.Busy },
			"odd":     func(_ *container.Leftover, n *container.StateFile) { n.Activity = '?' },
			"ended":   func(l *container.Leftover, _ *container.StateFile) { l.Alive = false },
			"lost":    func(l *container.Leftover, _ *container.StateFile) { l.Addr = "" },
			"another": func(l *container.Leftover, n *container.StateFile) { n.ID = "x" },
			"renamed": func(_ *container.Leftover, n *container.StateFile) { n.Name = "y" },
			"garbled": func(_ *container.Leftover, n *container.StateFile) { n.Key = "zz" },
			"older":   func(l *container.Leftover, _ *container.StateFile) { l.Digest = "" },
			"remade":  func(_ *container.Leftover, n *container.StateFile) { n.Image = "other" },
			"refused": func(l *container.Leftover, _ *container.StateFile) { e.refuse[l.ID] = errors.New("no") },
			"device":  func(_ *container.Leftover, n *container.StateFile) { n.GPU = &container.GPUStateFile{Device: "d"} },
		}
		s := e.settings()
		s.Images = func(string) (string, bool) { return "node", true }
		s.Pool.MemoryMB = 256 * len(cases)
		_, stop := e.start(s)
		for name := range cases {
			e.action(name, nil)
			e.invokeAndWait(name, time.Second)
		}
		stop()
		next := e.process()
		next.refuse = e.refuse
		for id, l := range next.lefts {
			for name, spoil := range cases {
				if strings.HasSuffix(l.Name, "_"+name) {
					state := next.saved[l.Name]
					spoil(&l, &state)
					next.lefts[id], next.saved[l.Name] = l, state
				}
			}
		}
		_, stop = next.start(s)
		for name := range cases {
			next.ok(next.invokeAndWait(name, time.Second))
		}
		want := len(cases) - 2
		check.Equal(t, next.made, want)
		check.Equal(t, len(next.removals), want)
		for _, id := range next.removals {
			check.That(t, !strings.HasSuffix(string(id), "_fit"), "removed: %v", id)
			check.That(t, !strings.HasSuffix(string(id), "_pausing"), "removed: %v", id)
		}
		stop()
	})
}

// TestLeftoversCountUntilTheyAreGone: containers that are removed in the background count as
// used memory until they are gone. All of the memory is returned.
func TestLeftoversCountUntilTheyAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSurvivors(t)
		for i := range 8 {
			id := container.ID(fmt.Sprint("old", i))
			e.lefts[id] = container.Leftover{ID: id, Name: fmt.Sprint(e.settings().Prefix, i, "_a_b"), MemoryMB: 256, Alive: true}
		}
		e.action("f", nil)
		s := e.settings()
		s.Pool.MemoryMB = 4 * 256 // less than the memory of the leftovers
		iv, stop := e.start(s)
		e.ok(e.invokeAndWait("f", time.Second))
		st := e.status(iv)
		check.Equal(t, st.Pool.UsedMB, 256)
		check.Equal(t, st.Pool.Removing, 0)
		check.Equal(t, len(e.removals), 8)
		stop()
	})
}

// TestLastUsedStayWhereMemoryIsShort: without memory for all containers, the most recently
// used are adopted, and the pool counts them.
func TestLastUsedStayWhereMemoryIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newSurvivors(t)
		e.follows = true
		s := e.settings()
		_, stop := e.start(s)
		for i := range 4 {
			e.action(fmt.Sprint("f", i), nil)
			e.invokeAndWait(fmt.Sprint("f", i), time.Second)
		}
		stop()
		next := e.process()
		s.Pool.MemoryMB = 2 * 256
		iv, stop := next.start(s)
		synctest.Wait()
		st := e.status(iv)
		check.Equal(t, st.Pool.UsedMB, 2*256)
		check.Equal(t, st.Pool.Idle, 2)
		for i := range next.removals {
			id := next.removals[i]
			check.That(t, !strings.HasSuffix(string(id), "_f2"), "removed: %v", id)
			check.That(t, !strings.HasSuffix(string(id), "_f3"), "removed: %v", id)
		}
		stop()
	})
}
