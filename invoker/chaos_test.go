package invoker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestEveryActivationCompletesOnce throws everything at the invoker at once:
// CPU and GPU actions, concurrency, containers that fail in every way and die
// at any moment. Each activation leaves exactly one completion and one record,
// every message is done once, and no container is left counted.
func TestEveryActivationCompletesOnce(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
	}
}

func chaos(t *testing.T, seed uint64) {
	s := &storm{fixture: newFixture(t), r: rand.New(rand.NewPCG(seed, 7))}
	s.actions()
	s.failures()
	settings := s.gpuSettings(2)
	settings.Drain = time.Hour
	settings.Pool.StemCells = []container.StemCell{{Kind: "nodejs:20", MemoryMB: 256, Count: 1}}
	iv, stop := s.start(settings)
	const n = 400
	for range n {
		s.call()
	}
	time.Sleep(time.Hour)
	status := s.status(iv)
	check.Equal(check.Must(t), status.InFlight, 0, "seed %d: status", seed)
	check.Equal(check.Must(t), status.Pool.Waiting, 0, "seed %d: status", seed)
	stop()
	s.judge(seed, n)
}

// storm is a fixture where chance decides.
type storm struct {
	*fixture
	r *rand.Rand // guarded by the fixture's lock
}

// roll is true once in n times.
func (s *storm) roll(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.IntN(n) == 0
}

// nap is a time of less than ms milliseconds.
func (s *storm) nap(ms int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.r.IntN(ms)) * time.Millisecond
}

func (s *storm) actions() {
	for i := range 6 {
		s.action(fmt.Sprint("c", i), func(a *activation.Action) {
			a.Limits.MemoryMB, a.Limits.Concurrency = 128<<(i%3), 1
			a.Limits.LogsMB = i % 2
		})
		s.action(fmt.Sprint("g", i), annotate(`{"memory":"6 GB"}`))
	}
}

// failures makes everything take a while, and fail now and then.
func (s *storm) failures() {
	s.create = func(container.Spec) error {
		time.Sleep(s.nap(300))
		if s.roll(15) {
			return &container.CreateError{Message: "no", Err: errors.New("no")}
		}
		return nil
	}
	s.init = func([]byte) proxy.Exchange {
		time.Sleep(s.nap(100))
		if s.roll(15) {
			return answer(502, `{"error":"x"}`)
		}
		return answer(200, `{}`)
	}
	s.run = s.answer
	s.logging = func() {
		time.Sleep(s.nap(400))
		if s.roll(50) {
			panic("log bug")
		}
	}
	s.resume = func() error {
		if s.roll(5) {
			return container.ErrGone
		}
		return nil
	}
	s.pause = s.resume
	s.gpu.moveTime = func() time.Duration { return s.nap(3000) }
}

func (s *storm) answer(int, []byte) proxy.Exchange {
	time.Sleep(s.nap(500))
	switch {
	case s.roll(20):
		return proxy.Exchange{Failure: proxy.NoResponse}
	case s.roll(20): //nolint:gocritic // rolled again
		return proxy.Exchange{Failure: proxy.Refused}
	case s.roll(50):
		panic("worker bug")
	}
	return answer(200, `{}`)
}

// call invokes one of the actions, waits, and may let a container die.
func (s *storm) call() {
	kind := "c"
	if s.roll(2) {
		kind = "g"
	}
	name := fmt.Sprint(kind, int(s.nap(6)/time.Millisecond))
	blocking := s.roll(2)
	s.invoke(name, func(m *activation.Message) { m.Blocking = blocking })
	time.Sleep(s.nap(200))
	if s.roll(20) {
		time.Sleep(s.nap(30_000))
	}
	if s.roll(10) {
		s.mu.Lock()
		id := container.ID(fmt.Sprint("id", 1+s.r.IntN(s.made+1)))
		s.mu.Unlock()
		s.diedC <- id
	}
}

func (env *fixture) judge(seed uint64, n int) {
	env.t.Helper()
	freed, records := map[activation.ID]int{}, map[activation.ID]int{}
	for _, a := range env.acks {
		if a.FreesSlot() {
			freed[a.ActivationID]++
		}
	}
	for _, r := range env.records {
		records[r.ActivationID]++
	}
	slices.Sort(env.done)
	check.Equal(env.t, len(slices.Compact(slices.Clone(env.done))), n, "seed %d", seed)
	check.Equal(env.t, len(env.done), n, "seed %d", seed)
	for offset := range n {
		id := activation.ID(fmt.Sprintf("%032x", offset))
		check.Equal(env.t, freed[id], 1, "seed %d: activation %d", seed, offset)
		check.Equal(env.t, records[id], 1, "seed %d: activation %d", seed, offset)
	}
}
