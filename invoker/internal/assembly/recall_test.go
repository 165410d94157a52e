package assembly

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/delivery"
)

// TestJournalAndKafkaTogether: the states of journal and Kafka are merged.
func TestJournalAndKafkaTogether(t *testing.T) {
	cfg := journal.Config{Dir: t.TempDir()}
	j, err := journal.Open(cfg)
	check.NoError(t, err)
	id := func(c string) activation.ID { return activation.ID(strings.Repeat(c, 32)) }
	for i, c := range []string{"a", "b", "c"} {
		j.Delivered(id(c), 0, int64(i))
	}
	_, _ = j.Begin(t.Context(), id("b"), 0)
	_, _ = j.Begin(t.Context(), id("c"), 0)
	j.Completed(id("c"))
	check.NoError(t, j.Close())
	if j, err = journal.Open(cfg); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	for _, c := range []struct {
		id       string
		begun    bool // by Kafka's offset metadata
		attempts int
		want     delivery.History
	}{
		{"a", false, 0, delivery.History{}},
		{"a", true, 2, delivery.History{Begun: true, Attempts: 2}},
		{"b", false, 0, delivery.History{Begun: true}},
		{"b", false, 1, delivery.History{Begun: true, Attempts: 1}},
		{"c", false, 0, delivery.History{Completed: true}},
		{"d", false, 0, delivery.History{}}, // new
	} {
		d := invoker.Delivery{
			Message: &activation.Message{ActivationID: id(c.id)}, Offset: int64(c.id[0] - 'a'), History: delivery.History{Begun: c.begun, Attempts: c.attempts},
		}
		recall(j, 0, &d)
		check.Equal(t, d.Completed, c.want.Completed, "%+v", c)
		check.Equal(t, d.Begun, c.want.Begun, "%+v", c)
		check.Equal(t, d.Attempts, c.want.Attempts, "%+v", c)
	}
	check.Equal(t, j.History(id("d")).State, journal.Accepted)
}

// TestEveryMessageOfAnActivationRuns: a second message with a known id runs, and the journal's
// state of the first message stays unchanged.
func TestEveryMessageOfAnActivationRuns(t *testing.T) {
	j, err := journal.Open(journal.Config{Dir: t.TempDir()})
	check.NoError(t, err)
	defer func() { _ = j.Close() }()
	id := activation.ID(strings.Repeat("a", 32))
	deliver := func(offset int64) (d invoker.Delivery, used bool) {
		d = invoker.Delivery{Message: &activation.Message{ActivationID: id}, Offset: offset}
		used = recall(j, 0, &d)
		return d, used
	}
	d, used := deliver(0)
	check.That(t, used, "the first: %+v", d)
	check.Equal(t, d.NotJournaled, false)
	_, _ = j.Begin(t.Context(), id, 0)
	j.Completed(id)
	for offset := range int64(3) {
		d, used := deliver(offset + 1)
		check.That(t, used, "another: %+v", d)
		check.That(t, d.NotJournaled, "another")
		check.That(t, !d.Completed, "another")
		check.That(t, !d.Begun, "another")
	}
	if got := j.History(id).State; got != journal.Completed {
		t.Errorf("the first is %v", got)
	}
}

// TestHandedOutAgainIsNotRunAgain: a scheduler's second copy of an activation is dropped,
// whether or not the disk stored the first, while the first is in progress and after its end.
// An activation that was given back may come again.
func TestHandedOutAgainIsNotRunAgain(t *testing.T) {
	for _, disk := range []string{"well", "away"} {
		t.Run(disk, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "journal")
			j, err := journal.Open(journal.Config{Dir: dir})
			check.NoError(t, err)
			defer func() { _ = j.Close() }()
			if disk == "away" {
				check.NoError(t, os.Rename(dir, dir+"x"))
			}
			p := &pullJournal{Journal: j}
			id := activation.ID(strings.Repeat("a", 32))
			keep := func() bool {
				_, fresh, err := p.AppendFetched(id, []byte("message"))
				check.That(t, disk == "away" || err == nil, "%v", err)
				return fresh
			}
			if !keep() {
				t.Error("the first copy is not used")
			}
			if keep() {
				t.Error("a second copy is used while the first waits")
			}
			if disk == "well" {
				_, _ = j.Begin(t.Context(), id, 0)
				if keep() {
					t.Error("a second copy is used while the first runs")
				}
			}
			j.Completed(id)
			if keep() {
				t.Error("a second copy is used after the first ended")
			}
			other := activation.ID(strings.Repeat("b", 32))
			id = other
			if !keep() {
				t.Error("another activation is not used")
			}
			if disk == "well" {
				check.NoError(t, p.CommitHandback(other))
				if !keep() {
					t.Error("an activation that went back and comes again is not used")
				}
			}
		})
	}
}
