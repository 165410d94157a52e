package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// deadLetters is a DeadLetterStore in memory.
type deadLetters struct {
	mu   sync.Mutex
	ids  []string
	full bool
}

func (g *deadLetters) Add(doc Document, _ error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.full {
		return errors.New("no space left on device")
	}
	g.ids = append(g.ids, doc.ID)
	return nil
}

func (g *deadLetters) list() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(slices.Values(g.ids))
}

// TestGuiltyDocumentsLeaveTheOthersAlone: documents whose requests always fail are
// found, and put aside after their time.
func TestGuiltyDocumentsLeaveTheOthersAlone(t *testing.T) {
	for _, fault := range []int{http.StatusInternalServerError, http.StatusGatewayTimeout} {
		d := newDatabase()
		guilty := []int{3, 40, 41, 96}
		var want []string
		for _, i := range guilty {
			d.poison[doc(i).ID] = fault
			want = append(want, doc(i).ID)
		}
		dead := &deadLetters{}
		bubble(t, Config{Requests: 1, DeadLetters: dead}, d, func(t *testing.T, r *Queue) {
			for i := range 100 {
				put(t, r, doc(i))
			}
			time.Sleep(time.Minute)
			check.Equal(t, d.count(), 96, "status %d", fault)
			check.Equal(t, len(dead.list()), 0, "status %d: put aside within a minute", fault)
			h := r.Health()
			check.Equal(check.Must(t), len(h.Suspects), 4, "status %d: health", fault)
			check.Equal(t, h.BufferedDocs, 4, "status %d: health", fault)
			check.That(t, h.Suspects[0].Error != "", "status %d: health %+v", fault, h)
			time.Sleep(5 * time.Minute)
			put(t, r, doc(200)) // nothing else is delayed
			flush(t, r)
			check.EqualSlices(t, dead.list(), want, "status %d: put aside", fault)
			check.Equal(t, r.stats.DeadLettered, 4, "status %d: put aside", fault)
			check.Equal(t, d.count(), 97, "status %d: put aside", fault)
		})
	}
}

// TestSuspectsAreClearedWhenTheDatabaseRecovers: while the database accepts no document
// at all, no document becomes a suspect, however long that lasts.
func TestSuspectsAreClearedWhenTheDatabaseRecovers(t *testing.T) {
	d := newDatabase()
	d.full = true
	dead := &deadLetters{}
	bubble(t, Config{DeadLetters: dead}, d, func(t *testing.T, r *Queue) {
		for i := range 50 {
			put(t, r, doc(i))
		}
		time.Sleep(time.Hour)
		d.set(func() { d.full = false })
		flush(t, r)
		check.Equal(t, d.count(), 50)
		check.Equal(t, len(dead.list()), 0)
	})
}

// TestServerThatRefusesAllGivesUpNone: if every request is answered with 400, for example by a
// misconfigured load balancer, no record is given up.
func TestServerThatRefusesAllGivesUpNone(t *testing.T) {
	d := newDatabase()
	d.down = status(http.StatusBadRequest)
	dead := &deadLetters{}
	bubble(t, Config{DeadLetters: dead}, d, func(t *testing.T, r *Queue) {
		for i := range 50 {
			put(t, r, doc(i))
		}
		time.Sleep(time.Hour)
		if h := r.Health(); h.OK() {
			t.Errorf("healthy: %+v", h)
		}
		d.set(func() { d.down = nil })
		flush(t, r)
		check.Equal(t, d.count(), 50)
		check.Equal(t, len(dead.list()), 0)
		h := r.Health()
		check.That(t, h.OK(), "%+v", h)
	})
}

// TestSuspectThatIsTooLargeKeepsItsResult: a database may close the connection of a too
// large request before it answers.
func TestSuspectThatIsTooLargeKeepsItsResult(t *testing.T) {
	for _, alone := range []bool{false, true} {
		t.Run(fmt.Sprint("refused alone ", alone), func(t *testing.T) {
			d := newDatabase()
			d.poison[doc(1).ID] = http.StatusInternalServerError
			big := doc(1)
			line := strings.Repeat("l", 1<<20)
			big.Body = fmt.Appendf(nil, `{"_id":%q,"logs":[%q,%q,%q],"response":{"result":{"n":1}}}`, big.ID, line, line, line)
			bubble(t, Config{}, d, func(t *testing.T, r *Queue) {
				put(t, r, big, doc(2))
				time.Sleep(time.Minute)
				if n := len(r.Health().Suspects); n != 1 {
					t.Errorf("%d suspects", n)
				}
				d.set(func() { clear(d.poison); d.tooBig, d.alone = 2<<20, alone })
				time.Sleep(time.Minute)
				h := r.Health()
				d.mu.Lock()
				kept := d.docs[big.ID]
				d.mu.Unlock()
				check.That(t, strings.HasSuffix(kept, `"response":{"result":{"n":1}}}`), "%.200q", kept)
				check.That(t, !strings.Contains(kept, line), "%.200q", kept)
				check.Equal(t, h.Records.Rejected, 0)
				check.Equal(t, h.BufferedDocs, 0)
			})
		})
	}
}

// TestDeadLettersThatCannotBeWritten: a document stays until the dead letters can be
// written.
func TestDeadLettersThatCannotBeWritten(t *testing.T) {
	d := newDatabase()
	d.poison[doc(1).ID] = http.StatusBadRequest
	dead := &deadLetters{full: true}
	bubble(t, Config{DeadLetters: dead}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0), doc(1))
		others(t, r, 1000, 60)
		check.Equal(t, d.count(), 61)
		check.Equal(t, r.Health().Records.Rejected, 0)
		dead.mu.Lock()
		dead.full = false
		dead.mu.Unlock()
		others(t, r, 2000, 10)
		flush(t, r)
		check.Equal(t, len(dead.list()), 1)
		check.Equal(t, r.stats.Rejected, 1)
	})
}

func TestDeadLettersAreFiles(t *testing.T) {
	d := DeadLetterDir{Dir: filepath.Join(t.TempDir(), "dead")}
	check.Equal(t, d.Count(), 0, "dead letters in a directory that cannot exist")
	body := `{"_id":"guest/../../x","n":1E+400}`
	for _, doc := range []Document{{ID: "guest/../../x", Body: []byte(body)}, {ID: strings.Repeat("y", 500), Body: []byte("{\xff")}} {
		check.NoError(t, d.Add(doc, errors.New("too bad")))
	}
	files, _ := os.ReadDir(d.Dir)
	check.Equal(check.Must(t), d.Count(), 2)
	check.Equal(check.Must(t), len(files), 2)
	data, err := os.ReadFile(filepath.Join(d.Dir, "x.json"))
	check.NoError(t, err)
	var l struct {
		ID, Reason string
		Document   json.RawMessage
	}
	err = json.Unmarshal(data, &l)
	check.NoError(t, err, "letter %s", data)
	check.Equal(t, l.ID, "guest/../../x", "letter %s", data)
	check.Equal(t, l.Reason, "too bad", "letter %s", data)
	check.Contains(t, string(l.Document), "1E+400", "letter %s", data)
}

// TestFullSpoolIsPressure: a Put waits, loses nothing, and continues when there is
// space.
func TestFullSpoolIsPressure(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	spool := &boundedSpool{most: 10}
	bubble(t, Config{Spool: spool}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0))
		time.Sleep(time.Second) // the database is known to be unreachable
		for i := range 10 {
			put(t, r, doc(1+i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check.ErrorIs(t, r.Put(ctx, doc(11)), context.DeadlineExceeded, "put into a full spool")
		var h Health
		h = r.Health()
		check.That(t, !h.Spool.OK(), "health %+v", h)
		check.That(t, r.Full(), "health %+v", h)
		waits := make(chan error)
		go func() { waits <- r.Put(t.Context(), doc(12)) }()
		synctest.Wait()
		d.set(func() { d.down = nil })
		if err := <-waits; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		flush(t, r)
		check.Equal(t, d.count(), 12)
		check.Equal(t, spool.Documents(), 0)
	})
}

// TestFlushGoesToTheSpoolOfADatabaseThatIsAway: a stop does not wait for an unreachable
// database.
func TestFlushGoesToTheSpoolOfADatabaseThatIsAway(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	spool := &memorySpool{}
	bubble(t, Config{Spool: spool}, d, func(t *testing.T, r *Queue) {
		for i := range 10 {
			put(t, r, doc(i))
		}
		began := time.Now()
		flush(t, r)
		check.AtMost(t, time.Since(began), 5*time.Second)
		check.Equal(t, spool.Documents(), 10)
		check.Equal(t, r.unwritten, 0)
	})
}

type boundedSpool struct {
	memorySpool
	most int
}

func (b *boundedSpool) Append(docs []Document) error {
	if b.Documents()+len(docs) > b.most {
		return errSpoolFull
	}
	return b.memorySpool.Append(docs)
}

// TestSpoolIsDrainedWithoutAnotherRecord: spooled documents are written when the
// database works again, even if only the retry of a suspect discovers that and no new
// record arrives.
func TestSpoolIsDrainedWithoutAnotherRecord(t *testing.T) {
	d := newDatabase()
	d.poison[doc(0).ID] = http.StatusInternalServerError
	spool := &boundedSpool{most: 10}
	bubble(t, Config{Spool: spool, DeadLetters: &deadLetters{}}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0))
		time.Sleep(10 * time.Second) // now it is a suspect
		put(t, r, doc(1))
		time.Sleep(10 * time.Second)
		d.set(func() { delete(d.poison, doc(0).ID) })
		time.Sleep(10 * time.Minute)
		check.Equal(t, d.count(), 2, "ten minutes after the database was well")
	})
}

// TestSpoolIsDrainedAfterAFlushWithoutDatabase: spooled documents are written even if,
// after a flush, no sender has a document whose request would show that the database is
// back.
func TestSpoolIsDrainedAfterAFlushWithoutDatabase(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	spool := &memorySpool{}
	bubble(t, Config{Spool: spool}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0))
		flush(t, r)
		put(t, r, doc(1))
		time.Sleep(time.Minute)
		check.Equal(t, spool.Documents(), 2)
		check.That(t, !r.Health().Writes.OK(), "%d documents in the spool, health %+v", spool.Documents(), r.Health())
		d.set(func() { d.down = nil })
		time.Sleep(10 * time.Second)
		check.Equal(t, d.count(), 2)
		check.Equal(t, spool.Documents(), 0)
		check.That(t, r.Health().Writes.OK(), "%d documents written, %d in the spool, health %+v", d.count(), spool.Documents(), r.Health())
	})
}

// TestFullSpoolIsForgotten: after the database is back and the spool is drained, the
// condition of a full spool ends, although no document goes to the spool.
func TestFullSpoolIsForgotten(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	spool := &memorySpool{limit: 3}
	bubble(t, Config{Spool: spool}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0))
		time.Sleep(time.Minute)
		waits := make(chan error, 1)
		go func() {
			for i := range 5 {
				if err := r.Put(t.Context(), doc(1+i)); err != nil {
					waits <- err
					return
				}
			}
			waits <- nil
		}()
		time.Sleep(time.Minute)
		check.Equal(t, spool.Documents(), 3)
		check.Equal(t, len(waits), 0)
		check.That(t, !r.Health().Spool.OK(), "%d documents in the spool, health %+v", spool.Documents(), r.Health())
		d.set(func() { d.down = nil })
		time.Sleep(20 * time.Second)
		if err := <-waits; err != nil {
			t.Error(err)
		}
		flush(t, r)
		check.Equal(t, d.count(), 6)
		check.Equal(t, spool.Documents(), 0)
		check.That(check.Must(t), r.Health().OK(), "%d documents written, %d in the spool, health %+v", d.count(), spool.Documents(), r.Health())
		check.That(t, !r.Full(), "%d documents written, %d in the spool, health %+v", d.count(), spool.Documents(), r.Health())
	})
}

// TestSpoolKeepsSuspects: a suspect from the spool stays in the spool until
// it is settled, because the process may be killed.
func TestSpoolKeepsSuspects(t *testing.T) {
	d := newDatabase()
	d.poison[doc(3).ID] = http.StatusInternalServerError
	spool, dead := &memorySpool{}, &deadLetters{}
	for i := range 10 {
		spool.docs = append(spool.docs, doc(i)) // left by an earlier process
	}
	bubble(t, Config{Spool: spool, DeadLetters: dead, BatchDocs: 5}, d, func(t *testing.T, r *Queue) {
		time.Sleep(time.Minute)
		check.Equal(t, d.count(), 4)
		check.Equal(t, spool.Documents(), 10)
		put(t, r, doc(100)) // nothing else is delayed
		time.Sleep(time.Second)
		check.Equal(t, d.count(), 5, "a fresh document was not written within a second")
		time.Sleep(5 * time.Minute)
		check.Equal(t, d.count(), 10)
		check.Equal(t, spool.Documents(), 0)
		check.EqualSlices(t, dead.list(), []string{doc(3).ID})
	})
}
