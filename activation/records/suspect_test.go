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
)

// deadLetters is a Dead in memory.
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

// TestGuiltyDocumentsLeaveTheOthersAlone: documents that make each request fail
// that they are in are found, and put aside when they have had their time.
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
			if d.count() != 96 {
				t.Errorf("status %d: %d documents written after a minute", fault, d.count())
			}
			if len(dead.list()) != 0 {
				t.Errorf("status %d: put aside within a minute", fault)
			}
			h := r.Health()
			if len(h.Suspects) != 4 || h.BufferedDocs != 4 || h.Suspects[0].Error == "" {
				t.Errorf("status %d: health %+v", fault, h)
			}
			time.Sleep(5 * time.Minute)
			put(t, r, doc(200)) // nothing is delayed meanwhile
			flush(t, r)
			if got := dead.list(); !slices.Equal(got, want) || r.stats.DeadLettered != 4 || d.count() != 97 {
				t.Errorf("status %d: put aside %v, %+v", fault, got, r.stats)
			}
		})
	}
}

// TestSuspectsAreClearedWhenTheDatabaseRecovers: while it takes no
// document at all none is a suspect, however long that lasts.
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
		if d.count() != 50 || len(dead.list()) != 0 {
			t.Errorf("%d documents, %d put aside", d.count(), len(dead.list()))
		}
	})
}

// TestWhatRefusesAllGivesUpNone: what answers each request with 400, as a load balancer
// that was set up wrong, finds nothing wrong with any record.
func TestWhatRefusesAllGivesUpNone(t *testing.T) {
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
		if h := r.Health(); d.count() != 50 || len(dead.list()) != 0 || !h.OK() {
			t.Errorf("%d documents, %d put aside, health %+v", d.count(), len(dead.list()), h)
		}
	})
}

// TestSuspectThatIsTooLargeKeepsItsResult: a database may close the connection of a
// request that is too large before it says so.
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
				if !strings.HasSuffix(kept, `"response":{"result":{"n":1}}}`) || strings.Contains(kept, line) || h.Records.Rejected != 0 || h.BufferedDocs != 0 {
					t.Errorf("kept %.200q, %d rejected, %d not written", kept, h.Records.Rejected, h.BufferedDocs)
				}
			})
		})
	}
}

// TestDeadLettersThatCannotBeWritten: the document stays until they can.
func TestDeadLettersThatCannotBeWritten(t *testing.T) {
	d := newDatabase()
	d.poison[doc(1).ID] = http.StatusBadRequest
	dead := &deadLetters{full: true}
	bubble(t, Config{DeadLetters: dead}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0), doc(1))
		time.Sleep(time.Hour)
		if d.count() != 1 || r.stats.Rejected != 0 {
			t.Errorf("%d documents, %+v", d.count(), r.stats)
		}
		dead.mu.Lock()
		dead.full = false
		dead.mu.Unlock()
		flush(t, r)
		if got := dead.list(); len(got) != 1 || r.stats.Rejected != 1 {
			t.Errorf("put aside %v, %+v", got, r.stats)
		}
	})
}

func TestDeadLettersAreFiles(t *testing.T) {
	d := DeadLetterDir{Dir: filepath.Join(t.TempDir(), "dead")}
	if d.Count() != 0 {
		t.Error("dead letters in a directory that is not there")
	}
	body := `{"_id":"guest/../../x","n":1E+400}`
	for _, doc := range []Document{{ID: "guest/../../x", Body: []byte(body)}, {ID: strings.Repeat("y", 500), Body: []byte("{\xff")}} {
		if err := d.Add(doc, errors.New("too bad")); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := os.ReadDir(d.Dir)
	if d.Count() != 2 || len(files) != 2 {
		t.Fatalf("%d letters, %d files", d.Count(), len(files))
	}
	data, err := os.ReadFile(filepath.Join(d.Dir, "x.json"))
	if err != nil {
		t.Fatal(err)
	}
	var l struct {
		ID, Reason string
		Document   json.RawMessage
	}
	if err := json.Unmarshal(data, &l); err != nil || l.ID != "guest/../../x" || l.Reason != "too bad" || !strings.Contains(string(l.Document), "1E+400") {
		t.Errorf("letter %s, %v", data, err)
	}
}

// TestFullSpoolIsPressure: a Put waits, loses nothing, and goes on when
// there is space again.
func TestFullSpoolIsPressure(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	spool := &boundedSpool{most: 10}
	bubble(t, Config{Spool: spool}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0))
		time.Sleep(time.Second) // the database is known to be away
		for i := range 10 {
			put(t, r, doc(1+i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.Put(ctx, doc(11)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("put into a full spool: %v", err)
		}
		var h Health
		if h = r.Health(); h.Spool.OK() || !r.Full() {
			t.Errorf("health %+v", h)
		}
		waits := make(chan error)
		go func() { waits <- r.Put(t.Context(), doc(12)) }()
		synctest.Wait()
		d.set(func() { d.down = nil })
		if err := <-waits; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		flush(t, r)
		if d.count() != 12 || spool.Documents() != 0 {
			t.Errorf("%d documents, %d in the spool", d.count(), spool.Documents())
		}
	})
}

// TestFlushGoesToTheSpoolOfADatabaseThatIsAway: a stop does not wait for it.
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
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("flushed after %v", took)
		}
		if spool.Documents() != 10 || r.unwritten != 0 {
			t.Errorf("%d documents in the spool, %d unwritten", spool.Documents(), r.unwritten)
		}
	})
}

type boundedSpool struct {
	memorySpool
	most int
}

func (b *boundedSpool) Append(docs []Document) error {
	if b.Documents()+len(docs) > b.most {
		return ErrSpoolFull
	}
	return b.memorySpool.Append(docs)
}

// TestSpoolIsDrainedWithoutAnotherRecord: what went to the spool while the
// database failed is written when it is well again, also if it is a suspect's
// try that finds that out and nothing else comes.
func TestSpoolIsDrainedWithoutAnotherRecord(t *testing.T) {
	d := newDatabase()
	d.poison[doc(0).ID] = http.StatusInternalServerError
	spool := &boundedSpool{most: 10}
	bubble(t, Config{Spool: spool, DeadLetters: &deadLetters{}}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0))
		time.Sleep(10 * time.Second) // it is a suspect now
		put(t, r, doc(1))
		time.Sleep(10 * time.Second)
		d.set(func() { delete(d.poison, doc(0).ID) })
		time.Sleep(10 * time.Minute)
		if d.count() != 2 {
			t.Errorf("%d documents written ten minutes after the database was well, want 2: %+v", d.count(), r.stats)
		}
	})
}

// TestSpoolIsDrainedAfterAFlushWithoutDatabase: a flush leaves no sender with a
// document whose request would find the database back.
func TestSpoolIsDrainedAfterAFlushWithoutDatabase(t *testing.T) {
	d := newDatabase()
	d.down = errors.New("connection refused")
	spool := &memorySpool{}
	bubble(t, Config{Spool: spool}, d, func(t *testing.T, r *Queue) {
		put(t, r, doc(0))
		flush(t, r)
		put(t, r, doc(1))
		time.Sleep(time.Minute)
		if spool.Documents() != 2 || r.Health().Writes.OK() {
			t.Errorf("%d documents in the spool, health %+v", spool.Documents(), r.Health())
		}
		d.set(func() { d.down = nil })
		time.Sleep(10 * time.Second)
		if d.count() != 2 || spool.Documents() != 0 || !r.Health().Writes.OK() {
			t.Errorf("%d documents written, %d in the spool, health %+v", d.count(), spool.Documents(), r.Health())
		}
	})
}

// TestFullSpoolIsForgotten: when the database is back and the spool is drained,
// no document goes to the spool and finds that it has space.
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
		if spool.Documents() != 3 || len(waits) > 0 || r.Health().Spool.OK() {
			t.Errorf("%d documents in the spool, health %+v", spool.Documents(), r.Health())
		}
		d.set(func() { d.down = nil })
		time.Sleep(20 * time.Second)
		if err := <-waits; err != nil {
			t.Error(err)
		}
		flush(t, r)
		if d.count() != 6 || spool.Documents() != 0 || !r.Health().OK() || r.Full() {
			t.Errorf("%d documents written, %d in the spool, health %+v", d.count(), spool.Documents(), r.Health())
		}
	})
}

// TestSpoolKeepsWhatIsUnderSuspicion: a document of the spool that the database
// fails on lies there until it is settled, for the process may be killed.
func TestSpoolKeepsWhatIsUnderSuspicion(t *testing.T) {
	d := newDatabase()
	d.poison[doc(3).ID] = http.StatusInternalServerError
	spool, dead := &memorySpool{}, &deadLetters{}
	for i := range 10 {
		spool.docs = append(spool.docs, doc(i)) // left by a former process
	}
	bubble(t, Config{Spool: spool, DeadLetters: dead, BatchDocs: 5}, d, func(t *testing.T, r *Queue) {
		time.Sleep(time.Minute)
		if d.count() != 4 || spool.Documents() != 10 {
			t.Errorf("%d documents written, %d in the spool", d.count(), spool.Documents())
		}
		put(t, r, doc(100)) // nothing is delayed meanwhile
		time.Sleep(time.Second)
		if d.count() != 5 {
			t.Error("a fresh document was not written within a second")
		}
		time.Sleep(5 * time.Minute)
		if d.count() != 10 || spool.Documents() != 0 || !slices.Equal(dead.list(), []string{doc(3).ID}) {
			t.Errorf("%d documents written, %d in the spool, %v put aside", d.count(), spool.Documents(), dead.list())
		}
	})
}
