package journal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/wal"
)

func id(i int) activation.ID { return activation.ID(fmt.Sprintf("%032x", i+1)) }

func message(i int) []byte { return fmt.Appendf(nil, "message %d %s", i, strings.Repeat("m", i%50)) }

func open(t testing.TB, cfg Config) *Journal {
	t.Helper()
	j, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// again closes a journal and opens it in a next life.
func again(t testing.TB, j *Journal) *Journal {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, j.cfg)
}

func park(t testing.TB, j *Journal, i int) {
	t.Helper()
	if err := parkOne(j, id(i), message(i)); err != nil {
		t.Fatal(err)
	}
}

func parkOne(j *Journal, id activation.ID, message []byte) error {
	return j.Park([]activation.ID{id}, [][]byte{message})[0]
}

func TestNextLifeKnowsEachStep(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()})
	for i := range 4 {
		j.Accepted(id(i), 2, int64(100+i))
	}
	park(t, j, 1)
	j.Started(id(2))
	j.Started(id(2)) // before /init and before /run
	j.Started(id(3))
	j.Completed(id(3))
	want := []Past{{State: Accepted}, {State: Accepted, Parked: true, Taken: true}, {State: Started}, {State: Completed}, {}}
	check := func() {
		t.Helper()
		for i, w := range want {
			if got := j.Past(id(i)); got != w {
				t.Errorf("activation %d: %+v, want %+v", i, got, w)
			}
		}
	}
	check()
	j = again(t, j)
	want[1].Taken = false // nobody has it in this life yet
	check()
	// It was running when a process ended, this time without closing.
	j.Accepted(id(2), 2, 102)
	j.Started(id(2))
	check()
	j = open(t, Config{Dir: killed(t, j)})
	want[2].Crashes = 1
	check()
	j.Started(id(2))
	j = open(t, Config{Dir: killed(t, j)})
	want[2].Crashes = 2
	check()
	left := j.Left()
	if len(left) != 1 || left[0].ID != id(1) || left[0].Offset != 101 || left[0].Partition != 2 || left[0].Past != want[1] {
		t.Errorf("left %+v", left)
	}
}

func TestParkedMessagesComeBackInOrder(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 500})
	const n = 100
	for i := range n {
		j.Accepted(id(i), 0, int64(i))
		park(t, j, i)
	}
	for range 2 {
		for i := range n {
			if got, err := j.Message(id(i)); err != nil || string(got) != string(message(i)) {
				t.Fatalf("message %d: %q, %v", i, got, err)
			}
		}
		j = again(t, j)
	}
	left := j.Left()
	if len(left) != n || !slices.IsSortedFunc(left, func(a, b Left) int { return int(a.Offset - b.Offset) }) {
		t.Fatalf("left %+v", left)
	}
	for i := range n {
		j.Completed(id(i))
		if _, err := j.Message(id(i)); !errors.Is(err, ErrNotParked) {
			t.Fatalf("message %d after completion: %v", i, err)
		}
	}
	if h := j.Health(); h.Parked != 0 {
		t.Errorf("health %+v", h)
	}
	j = again(t, j)
	if left := j.Left(); len(left) != 0 {
		t.Errorf("left %+v", left)
	}
}

// TestFilesGoWhenAllInThemIsDone although one activation waits all the time.
func TestFilesGoWhenAllInThemIsDone(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), SegmentBytes: 1000, Sync: wal.None})
	j.Accepted(id(0), 0, 0)
	park(t, j, 0)
	for i := 1; i < 5000; i++ {
		j.Accepted(id(i), 0, int64(i))
		j.Started(id(i))
		j.Completed(id(i))
		if i%100 == 0 {
			j.Covered(0, func(offset int64) bool { return offset > 0 && offset <= int64(i) })
		}
	}
	j.Covered(0, func(offset int64) bool { return offset > 0 })
	for j.shorten() {
	}
	if h := j.Health(); h.Known != 1 || h.Segments > 10 || h.Bytes > 10_000 {
		t.Errorf("health %+v", h)
	}
	j = again(t, j)
	if got, err := j.Message(id(0)); err != nil || string(got) != string(message(0)) {
		t.Errorf("message %q, %v", got, err)
	}
	if got := j.Past(id(0)); got != (Past{State: Accepted, Parked: true}) {
		t.Errorf("past %+v", got)
	}
}

func TestFullJournalRefusesToPark(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir(), Bytes: 10_000})
	for i := range 200 {
		j.Accepted(id(i), 0, int64(i))
		if err := parkOne(j, id(i), make([]byte, 100)); err != nil {
			if !errors.Is(err, ErrFull) || i < 20 {
				t.Fatalf("park %d: %v", i, err)
			}
			j.Completed(id(0))
			j.Completed(id(1))
			j.Covered(0, func(int64) bool { return true })
			if err := parkOne(j, id(i), make([]byte, 100)); err != nil {
				t.Errorf("park when there is space again: %v", err)
			}
			return
		}
	}
	t.Error("everything was parked")
}

// TestRandomHistories lives through many lives, each ended without warning, and
// compares what the next one knows with what was told.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(30) {
		history(t, rand.New(rand.NewPCG(seed, 3)), seed)
	}
}

func history(t *testing.T, r *rand.Rand, seed uint64) {
	dir := t.TempDir()
	told := map[int]Past{}
	next := 0
	for life := range 5 {
		j := open(t, Config{Dir: dir, SegmentBytes: 300, Sync: wal.None})
		started := map[int]bool{} // and not completed
		for i := range next {
			got := j.Past(id(i))
			if told[i] == (Past{}) && got.State == Completed {
				told[i] = got // covered, and its file is still there
			}
			if got != told[i] {
				t.Fatalf("seed %d, life %d, activation %d: %+v, told %+v", seed, life, i, got, told[i])
			}
		}
		for range 200 {
			i := r.IntN(next + 1)
			if i == next {
				next++
				j.Accepted(id(i), i%3, int64(i))
				told[i] = Past{State: Accepted}
			}
			step(t, r, j, i, told, started)
			if r.IntN(20) == 0 {
				covered := r.IntN(next)
				for p := range 3 {
					j.Covered(p, func(offset int64) bool { return offset < int64(covered) })
				}
				for i := range covered {
					if told[i].State == Completed {
						told[i] = Past{}
					}
				}
				for j.shorten() {
				}
			}
		}
		dir = killed(t, j)
		for i := range started {
			p := told[i]
			p.Crashes++
			told[i] = p
		}
	}
}

func step(t *testing.T, r *rand.Rand, j *Journal, i int, told map[int]Past, started map[int]bool) {
	p := told[i]
	switch what := r.IntN(3); {
	case p.State == Unknown || p.State == Completed:
	case what == 0:
		park(t, j, i)
		p.Parked = true
	case what == 1:
		j.Started(id(i))
		p.State = Started
		started[i] = true
	default:
		j.Completed(id(i))
		p.State, p.Parked = Completed, false
		delete(started, i)
	}
	told[i] = p
}

// killed gives a copy of a journal's files as they are with the system, as a
// kill would leave them.
func killed(t *testing.T, j *Journal) string {
	t.Helper()
	last := 1 << 20
	for j.Past(id(last)).State != Unknown {
		last++
	}
	j.Accepted(id(last), 0, 1<<40)
	j.Started(id(last)) // what came before is written with it
	j.Completed(id(last))
	for {
		copied := t.TempDir()
		err := os.CopyFS(copied, os.DirFS(j.cfg.Dir))
		if errors.Is(err, os.ErrNotExist) {
			continue // the keeper deleted a file meanwhile
		}
		if err := errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		return copied
	}
}

// TestCutAndFlippedAnywhere: however the file is damaged, the journal opens,
// and what is whole in it is known.
func TestCutAndFlippedAnywhere(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Config{Dir: dir, Sync: wal.None})
	for i := range 6 {
		j.Accepted(id(i), 0, int64(i))
		park(t, j, i)
	}
	j.Started(id(1))
	j.Completed(id(2))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.v1"))
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		for _, data := range [][]byte{whole[:at], flipped(whole, at)} {
			hurt := t.TempDir()
			if err := os.WriteFile(filepath.Join(hurt, filepath.Base(files[0])), data, 0o600); err != nil {
				t.Fatal(err)
			}
			j, err := Open(Config{Dir: hurt, Sync: wal.None})
			if err != nil {
				t.Fatalf("at %d: %v", at, err)
			}
			lost := 0
			for i := range 6 {
				p := j.Past(id(i))
				if p.Parked {
					if got, err := j.Message(id(i)); err != nil || string(got) != string(message(i)) {
						t.Fatalf("at %d: message %d: %q, %v", at, i, got, err)
					}
				} else if i != 2 {
					lost++
				}
			}
			if len(data) == len(whole) && lost > 1 {
				t.Fatalf("at %d: %d messages lost for one byte", at, lost)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func flipped(data []byte, at int) []byte {
	bad := slices.Clone(data)
	bad[at] ^= 0xff
	return bad
}

// TestSurvivesAKill has another process keep a journal, kills it, and looks for
// all that it had been answered for.
func TestSurvivesAKill(t *testing.T) {
	if dir := os.Getenv("GPUWHISK_JOURNAL_VICTIM"); dir != "" {
		victim(dir)
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSurvivesAKill$")
	cmd.Env = append(os.Environ(), "GPUWHISK_JOURNAL_VICTIM="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := 0
	for lines := bufio.NewScanner(out); said < 2000 && lines.Scan(); said++ {
		if lines.Text() != fmt.Sprint(said) {
			t.Fatalf("victim said %q", lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if said < 2000 {
		t.Fatalf("the victim ended by itself after %d", said)
	}
	j := open(t, Config{Dir: dir})
	for i := range said {
		if got := j.Past(id(i)); got != (Past{State: Started, Crashes: 1, Parked: true}) {
			t.Fatalf("activation %d: %+v", i, got)
		}
		if got, err := j.Message(id(i)); err != nil || string(got) != string(message(i)) {
			t.Fatalf("message %d: %q, %v", i, got, err)
		}
	}
}

func victim(dir string) {
	j, err := Open(Config{Dir: dir, SegmentBytes: 50_000})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		j.Accepted(id(i), 0, int64(i))
		if err := parkOne(j, id(i), message(i)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		j.Started(id(i))
		fmt.Println(i)
	}
}

// TestDiskThatRefusesHoldsUpNoRun: steps go on, parking is refused, and whoever
// takes in more work is told to wait.
func TestDiskThatRefusesHoldsUpNoRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := open(t, Config{Dir: dir, SegmentBytes: 1})
	j.Accepted(id(0), 0, 0)
	j.Started(id(0))
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	j.Accepted(id(1), 0, 1)
	j.Started(id(1))
	j.Completed(id(0))
	if err := parkOne(j, id(1), message(1)); err == nil {
		t.Error("parked on a disk that is not there")
	}
	if h := j.Health(); h.OK() || h.Since.IsZero() {
		t.Errorf("health %+v", h)
	}
	if err := os.Rename(dir+"x", dir); err != nil {
		t.Fatal(err)
	}
	if err := j.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	j = again(t, j)
	if a, b := j.Past(id(0)), j.Past(id(1)); a.State != Completed || b.State != Started {
		t.Errorf("past %+v, %+v", a, b)
	}
}

// TestParkedWaitsForTheDisk: of a parked activation nobody else knows, so it does
// not begin before that is kept; one that is not parked does.
func TestParkedWaitsForTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	j := open(t, Config{Dir: dir, SegmentBytes: 1})
	for i := range 2 {
		j.Accepted(id(i), 0, int64(i))
	}
	if err := parkOne(j, id(0), message(0)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"x"); err != nil {
		t.Fatal(err)
	}
	if err := j.Begin(t.Context(), id(1)); err != nil {
		t.Errorf("not parked: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Begin(ended, id(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("parked, on a disk that is not there: %v", err)
	}
	if p := j.Past(id(0)); p.State != Accepted {
		t.Errorf("it did not begin: %+v", p)
	}
	if err := os.Rename(dir+"x", dir); err != nil {
		t.Fatal(err)
	}
	if err := j.Begin(t.Context(), id(0)); err != nil {
		t.Error(err)
	}
	if p := again(t, j).Past(id(0)); p.State != Started {
		t.Errorf("past %+v", p)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, keyOf(id(7)), &entry{state: Started, partition: 3, offset: 1 << 40, starts: 2}, false))
	f.Add(append(encode(nil, keyOf(id(7)), &entry{state: Accepted, offset: -1}, true), "message"...))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, e, message, ok := decode(data)
		if !ok {
			return
		}
		back := append(encode(nil, k, &e, message != nil), message...)
		k2, e2, message2, ok := decode(back)
		if !ok || k2 != k || e2 != e || string(message2) != string(message) {
			t.Fatalf("%x: %+v became %+v", data, e, e2)
		}
	})
}

// A former process's word on an activation counts wherever it is delivered, and
// once: a second message with its id is another one.
func TestDeliveredOnce(t *testing.T) {
	dir := t.TempDir()
	id, other := activation.ID(strings.Repeat("a", 32)), activation.ID(strings.Repeat("b", 32))
	j, err := Open(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []activation.ID{id, other} {
		j.Accepted(a, 0, 7)
		j.Started(a)
	}
	j.Completed(id)
	if got := j.Delivered(id, 0, 8); got != (Past{Other: true}) {
		t.Errorf("another message with the id: %+v, want nothing known", got)
	}
	if got := j.Delivered(id, 0, 7); got.State != Completed {
		t.Errorf("the same message: %+v, want completed", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if j, err = Open(Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if got := j.Delivered(id, 0, 9); got.State != Completed { // the log was made anew
		t.Errorf("delivered again: %+v, want completed", got)
	}
	if got := j.Delivered(id, 0, 10); got != (Past{Other: true}) {
		t.Errorf("another message with the id: %+v, want nothing known", got)
	}
	if got := j.Delivered(other, 0, 7); got.State != Started {
		t.Errorf("delivered again: %+v, want started", got)
	}
}
