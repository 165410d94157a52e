package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/activation/wal"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/docker"
)

// notes are what the next process is told of containers, nil where none is taken
// over.
func (a *assembly) notes() invoker.Notes {
	if a.state.warm == nil || !a.c.Drain.Handover {
		return nil
	}
	return a.state.warm
}

// successor tells whether warm containers are left at the stop.
func (a *assembly) successor() bool {
	return a.c.Drain.Handover && a.Terminated != nil && a.Terminated() && !a.retired.Load()
}

// Clean removes the containers of an invoker that does not run, or of all that
// this host's Docker has, and tells how many there were.
func Clean(ctx context.Context, c *config.Config, id activation.Instance, all bool, log *slog.Logger) (int, error) {
	whose := ""
	if !all {
		whose = prefix(id)
		if dir := c.State.JournalDir(id.Topic()); dir != "" {
			j, err := journal.Open(journal.Config{Dir: dir, Bytes: int64(c.State.JournalSize), Log: log})
			if errors.Is(err, wal.ErrInUse) {
				return 0, fmt.Errorf("%s runs on this host: stop it first", id.Topic())
			}
			if err != nil {
				return 0, stateError(err, "whisk.gpu.journal")
			}
			defer j.Close()
		}
	}
	o := docker.DefaultOptions()
	o.Host, o.CertDir = c.Docker.Host, c.Docker.CertDir
	d, err := docker.Look(o)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	return d.Clean(ctx, whose)
}
