package journal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

func id(i int) activation.ID { return activation.ID(fmt.Sprintf("%032x", i+1)) }

func messageOf(i int) []byte { return fmt.Appendf(nil, "message %d %s", i, strings.Repeat("m", i%50)) }

func open(t testing.TB, cfg Config) *Journal {
	t.Helper()
	j, err := Open(cfg)
	check.NoError(t, err)
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// again closes a journal and opens it in a next life.
func again(t testing.TB, j *Journal) *Journal {
	t.Helper()
	check.NoError(t, j.Close())
	return open(t, j.cfg)
}

// compactNow compacts as the compactor does, and in its place: two at once would
// delete files in another order than from the oldest on.
func compactNow(j *Journal) {
	close(j.quit)
	j.wg.Wait()
	j.quit = make(chan struct{})
	for j.dropOldest() {
	}
	j.wg.Go(j.compact)
}

// begin has an activation begin that need not wait for the disk.
func begin(j *Journal, id activation.ID) { _, _ = j.Begin(context.Background(), id, 0) }

func mustStore(t testing.TB, j *Journal, i int) {
	t.Helper()
	err := store(j, id(i), messageOf(i))
	for err != nil && j.log.Ready(t.Context()) == nil && !errors.Is(err, errFull) { // a disk that is slow for a moment
		err = store(j, id(i), messageOf(i))
	}
	check.NoError(t, err)
}

func store(j *Journal, id activation.ID, message []byte) error {
	return j.AppendMessage(id, message)
}

func TestNextLifeKnowsEachStep(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	for i := range 4 {
		j.Delivered(id(i), 2, int64(100+i))
	}
	mustStore(t, j, 1)
	begin(j, id(2))
	begin(j, id(2)) // before /init and before /run
	begin(j, id(3))
	j.Completed(id(3))
	want := []History{{State: Accepted}, {State: Accepted, HasMessage: true, JournalOwned: true}, {State: Started}, {State: Completed}, {}}
	checkPast := func() {
		t.Helper()
		for i, w := range want {
			check.Equal(t, j.History(id(i)), w, "activation %d", i)
		}
	}
	checkPast()
	j = again(t, j)
	want[0] = History{}          // it was accepted and no more
	want[1].JournalOwned = false // not taken in this life yet
	checkPast()
	// It was running when a process ended, this time without closing.
	j.Delivered(id(2), 2, 102)
	begin(j, id(2))
	checkPast()
	j = open(t, Config{Dir: killed(t, j)})
	want[2].Crashes = 1
	checkPast()
	begin(j, id(2))
	j = open(t, Config{Dir: killed(t, j)})
	want[2].Crashes = 2
	checkPast()
	left := j.Unfinished()
	check.Equal(check.Must(t), len(left), 1)
	check.Equal(t, left[0].ID, id(1))
	check.Equal(t, left[0].Offset, 101)
	check.Equal(t, left[0].Partition, 2)
	check.Equal(t, left[0].History, want[1])
}

// Attempts that another log counted are added to the journal's.
func TestAttemptsOfAnotherLogCount(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	for life, attempts := range []int{0, 3, 0} {
		j := open(t, cfg)
		past := j.Delivered(id(1), 0, 1)
		check.Equal(t, past.Crashes, []int{0, 1, 4}[life], "life %d", life)
		written, err := j.Begin(t.Context(), id(1), attempts)
		check.NoError(t, err)
		check.That(t, written, "life %d: not written", life)
		cfg.Dir = killed(t, j)
	}
}

func TestMessagesComeBackInOrder(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 500})
	const n = 100
	for i := range n {
		j.Delivered(id(i), 0, int64(i))
		mustStore(t, j, i)
	}
	for range 2 {
		for i := range n {
			got, err := j.Message(id(i))
			check.NoError(t, err, "message %d: %q", i, got)
			check.Equal(check.Must(t), string(got), string(messageOf(i)), "message %d", i)
		}
		j = again(t, j)
	}
	left := j.Unfinished()
	check.Equal(check.Must(t), len(left), n)
	check.That(check.Must(t), slices.IsSortedFunc(left, func(a, b Unfinished) int { return int(a.Offset - b.Offset) }), "left %+v", left)
	for i := range n {
		j.Completed(id(i))
		_, err := j.Message(id(i))
		check.ErrorIs(check.Must(t), err, ErrNoMessage, "message %d after completion", i)
	}
	check.Equal(t, j.Health().Messages, 0)
	j = again(t, j)
	check.Equal(t, len(j.Unfinished()), 0)
}

// TestFilesGoWhenAllInThemIsDone although one activation waits all the time.
func TestFilesGoWhenAllInThemIsDone(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 1000, Sync: wal.SyncNone})
	j.Delivered(id(0), 0, 0)
	mustStore(t, j, 0)
	for i := 1; i < 5000; i++ {
		j.Delivered(id(i), 0, int64(i))
		begin(j, id(i))
		j.Completed(id(i))
		if i%100 == 0 {
			j.ForgetBelow(0, func(offset int64) bool { return offset > 0 && offset <= int64(i) })
		}
	}
	j.ForgetBelow(0, func(offset int64) bool { return offset > 0 })
	compactNow(j)
	h := j.Health()
	check.Equal(t, h.Known, 1)
	check.AtMost(t, h.Segments, 10)
	check.AtMost(t, h.Bytes, 10_000)
	j = again(t, j)
	got, err := j.Message(id(0))
	check.NoError(t, err, "message %q", got)
	check.Equal(t, string(got), string(messageOf(0)))
	check.Equal(t, j.History(id(0)), History{State: Accepted, HasMessage: true})
}

func TestFullJournalRefusesMessages(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), Bytes: 10_000})
	for i := range 200 {
		j.Delivered(id(i), 0, int64(i))
		if err := store(j, id(i), make([]byte, 100)); err != nil {
			check.ErrorIs(check.Must(t), err, errFull)
			check.AtLeast(check.Must(t), i, 40)
			j.Completed(id(0))
			j.Completed(id(1))
			j.ForgetBelow(0, func(int64) bool { return true })
			check.NoError(t, store(j, id(i), make([]byte, 100)), "with space again")
			return
		}
	}
	t.Error("everything was stored")
}

// TestRandomHistories opens a journal many times, ends each process without warning, and
// compares the states that the next process reads.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(30) {
		history(t, rand.New(rand.NewPCG(seed, 3)), seed)
	}
}

func history(t *testing.T, r *rand.Rand, seed uint64) {
	dir := t.TempDir()
	known := map[int]History{}
	next := 0
	for life := range 5 {
		j := open(t, Config{Dir: dir, SegmentBytes: 300, Sync: wal.SyncNone})
		started := map[int]bool{} // and not completed
		for i := range next {
			got := j.History(id(i))
			if known[i] == (History{}) && got.State == Completed {
				known[i] = got // covered, and its file is still there
			}
			if known[i] == (History{State: Accepted}) && got == (History{}) {
				j.Delivered(id(i), i%3, int64(i)) // it comes again
				continue
			}
			check.Equal(check.Must(t), got, known[i], "seed %d, life %d, activation %d", seed, life, i)
		}
		for range 200 {
			i := r.IntN(next + 1)
			if i == next {
				next++
				j.Delivered(id(i), i%3, int64(i))
				known[i] = History{State: Accepted}
			}
			step(t, r, j, i, known, started)
			if r.IntN(20) == 0 {
				covered := r.IntN(next)
				for p := range 3 {
					j.ForgetBelow(p, func(offset int64) bool { return offset < int64(covered) })
				}
				for i := range covered {
					if known[i].State == Completed {
						known[i] = History{}
					}
				}
				compactNow(j)
			}
		}
		dir = killed(t, j)
		for i := range started {
			p := known[i]
			p.Crashes++
			known[i] = p
		}
	}
}

func step(t *testing.T, r *rand.Rand, j *Journal, i int, known map[int]History, started map[int]bool) {
	p := known[i]
	switch what := r.IntN(3); {
	case p.State == Unknown || p.State == Completed:
	case what == 0:
		mustStore(t, j, i)
		p.HasMessage = true
	case what == 1:
		begin(j, id(i))
		p.State = Started
		started[i] = true
	default:
		j.Completed(id(i))
		p.State, p.HasMessage = Completed, false
		delete(started, i)
	}
	known[i] = p
}

// killed gives a copy of a journal's files as they are with the system, as a
// kill would leave them.
func killed(t *testing.T, j *Journal) string {
	t.Helper()
	last := 1 << 20
	for j.History(id(last)).State != Unknown {
		last++
	}
	j.Delivered(id(last), 0, 1<<40)
	begin(j, id(last)) // writes the earlier entries, too
	j.Completed(id(last))
	for {
		copied := t.TempDir()
		err := os.CopyFS(copied, os.DirFS(j.cfg.Dir))
		if errors.Is(err, os.ErrNotExist) {
			continue // the compactor deleted a file meanwhile
		}
		check.NoError(t, errors.Join(err, j.Close()))
		return copied
	}
}

// TestFormerVersionIsRead: testdata/v1 was written by a version with mapped memory that was
// killed. It has zeros at its end.
func TestFormerVersionIsRead(t *testing.T) {
	dir := t.TempDir()
	check.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "v1"))))
	j, err := Open(Config{Dir: dir})
	check.NoError(t, err)
	defer j.Close()
	activationID := func(n int) activation.ID { return activation.ID(fmt.Sprintf("%032x", n)) }
	for n, want := range []History{
		0: {},
		1: {State: Accepted, HasMessage: true},
		2: {State: Started, Crashes: 1, HasMessage: true},
		3: {State: Started, Crashes: 1},
		4: {State: Completed},
		5: {State: Started, Crashes: 1, Unacknowledged: true},
	} {
		check.Equal(t, j.History(activationID(n)), want, "activation %d", n)
	}
	check.Equal(t, j.Health().Damaged, 0)
	for _, n := range []int{1, 2} {
		got, err := j.Message(activationID(n))
		check.NoError(t, err)
		check.Equal(t, string(got), fmt.Sprintf(`{"message":%d}`, n), "message of %d", n)
	}
	got, err := j.Result(activationID(5))
	check.NoError(t, err)
	check.Equal(t, string(got), `{"record":5}`, "result of 5")
}
