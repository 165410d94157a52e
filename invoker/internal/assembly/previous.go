package assembly

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// lockPause is the interval at which the lock of a previous process is tried. It is the most
// that an upgrade loses by polling.
const lockPause = 100 * time.Millisecond

// awaitPrevious opens the state. It returns when this is the only process with its id. A
// process on this host holds the lock of the journal until it has removed its containers. A
// process on another host pings.
func (a *assembly) awaitPrevious(ctx context.Context) (hooks, error) {
	h := hooks{close: closer(a.state.close), status: a.state.addStatus, gauges: stateGauges}
	if err := a.state.awaitState(ctx); err != nil {
		return h, err
	}
	return h, a.intake.awaitPrevious(ctx)
}

func (a *classic) awaitPrevious(ctx context.Context) error {
	topic := a.c.Kafka.TopicPrefix + "health"
	a.stage.Store("looking at topic " + topic + " for another process with this id")
	return a.messaging.cluster.AwaitPredecessor(ctx, kafka.PreviousConfig{
		Topic: topic, Instance: a.instance, Dead: a.state.deadPinger(), Fresh: a.silence, Silence: a.silence,
		Seen: func(name string) {
			a.stage.Store("waiting for another process with the same id to end: " + name + " pings on topic " + topic + " (give one of the two another id)")
		},
	})
}

// awaitState opens the state. It blocks while another process holds the state.
func (st *state) awaitState(ctx context.Context) error {
	began, logged := time.Now(), false
	for {
		err := st.open()
		switch {
		case err == nil:
			if logged {
				st.Log.Info("the other process on this host has ended", "waited", time.Since(began).Round(time.Millisecond))
			}
			return nil
		case !errors.Is(err, wal.ErrInUse):
			return err
		}
		err = errors.Join(err, st.close()) // the resources that were opened before the error
		*st = state{base: st.base}
		if !logged {
			logged = true
			st.Log.Warn("another process on this host has the state of this invoker open: waiting until it ends", "invoker", st.instance.String(), "error", err)
			st.stage.Store("waiting for another process on this host to end: " + err.Error())
		}
		if !retry.Sleep(ctx, lockPause) {
			return fmt.Errorf("wait for another process: %w", err)
		}
	}
}

// pingerFile stores the name that the last pinging process on this host gave itself in its
// pings. A process that holds the journal's lock need not wait for those pings to become old,
// because their sender is dead.
const pingerFile = "pinged"

// deadPinger reads the name from pingerFile. If the file is damaged or missing, it returns a
// name that no process has, and the start takes two seconds longer.
func (st *state) deadPinger() string {
	name, _ := os.ReadFile(st.besideJournal(pingerFile))
	return string(name)
}

// namePinger makes the name of this process and stores it in pingerFile.
func (st *state) namePinger() string {
	name := rand.Text()
	if path := st.besideJournal(pingerFile); path != "" {
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			st.Log.Warn("the next process will wait until the last ping of this one is old", "error", err)
		}
	}
	return name
}
