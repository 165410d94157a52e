package assembly

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// lockPause is how often the lock of a previous process is tried: an upgrade takes
// at most so much longer than it must.
const lockPause = 100 * time.Millisecond

// awaitPrevious opens the state, and returns when this is the only process with its
// id. A process on this host has the journal locked until it has removed its
// containers; one on another host pings.
func (a *assembly) awaitPrevious(ctx context.Context) (hooks, error) {
	h := hooks{close: closer(func() error { return a.state.close() }), status: a.stateStatus, gauges: stateGauges}
	if err := a.awaitState(ctx); err != nil {
		return h, err
	}
	return h, a.intake.awaitPrevious(ctx)
}

func (a classic) awaitPrevious(ctx context.Context) error {
	if err := a.openPinged(); err != nil {
		return err
	}
	topic := a.c.Kafka.TopicPrefix + "health"
	a.stage.Store("looking at topic " + topic + " for another process with this id")
	return a.cluster.AwaitPrevious(ctx, kafka.PreviousConfig{
		Topic: topic, Instance: a.instance, Past: a.state.pinged.past, Fresh: a.silence, Silence: a.silence,
		Seen: func(name string) {
			a.stage.Store("waiting for another process with the same id to end: " + name + " pings on topic " + topic + " (give one of them another id)")
		},
	})
}

// awaitState opens the state, and waits for it while another process has it.
func (a *assembly) awaitState(ctx context.Context) error {
	began, logged := time.Now(), false
	for {
		err := a.openState()
		switch {
		case err == nil:
			if logged {
				a.Log.Info("the other process on this host has ended", "waited", time.Since(began).Round(time.Millisecond))
			}
			return nil
		case !errors.Is(err, wal.ErrInUse):
			return err
		}
		err = errors.Join(err, a.state.close()) // what it opened before
		a.state = state{}
		if !logged {
			logged = true
			a.Log.Warn("another process on this host has the state of this invoker open: waiting until it ends", "invoker", a.instance.String(), "error", err)
			a.stage.Store("waiting for another process on this host to end: " + err.Error())
		}
		if !retry.Sleep(ctx, lockPause) {
			return fmt.Errorf("wait for another process: %w", err)
		}
	}
}

// pinged keeps on disk which ping of this host's was the last. A process that has
// the journal's lock need not wait for pings up to that one to grow old: they
// are those of a process that is dead.
type pinged struct {
	file *os.File // nil: there is no journal, whose lock it needs
	past int64    // the offset after the last ping of the process before
}

func (a *assembly) openPinged() error {
	if a.state.journal == nil {
		return nil
	}
	path := filepath.Join(a.c.State.JournalDir(a.instance.Topic()), "pinged")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return stateError(err, "whisk.gpu.journal")
	}
	a.state.pinged.file = f
	a.state.pinged.past = readPinged(f)
	return nil
}

// pingedBytes is an offset and its check sum.
const pingedBytes = 12

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readPinged reads the offset that taken wrote. One that is damaged counts as none,
// which costs a start two seconds; one that is too high would hide the pings of a
// process on another host.
func readPinged(from io.ReaderAt) int64 {
	var b [pingedBytes + 1]byte
	n, err := from.ReadAt(b[:], 0)
	if n != pingedBytes || !errors.Is(err, io.EOF) || crc32.Checksum(b[:8], castagnoli) != binary.BigEndian.Uint32(b[8:]) {
		return 0
	}
	return max(0, int64(binary.BigEndian.Uint64(b[:])))
}

// taken stores a ping's offset.
func (p pinged) taken(offset int64) {
	if p.file != nil {
		b := binary.BigEndian.AppendUint64(make([]byte, 0, pingedBytes), uint64(offset+1))
		_, _ = p.file.WriteAt(binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), 0)
	}
}

func (p pinged) close() error {
	if p.file == nil {
		return nil
	}
	return p.file.Close()
}
