package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/journal"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// Clean removes the containers of an invoker that does not run, or of all that
// this host's container engine has, and returns how many there were.
func Clean(ctx context.Context, c *config.Config, id activation.Instance, all bool, log *slog.Logger) (int, error) {
	whose := ""
	if !all {
		whose = id.ContainerPrefix()
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
	if clients.Engine(c, os.DirFS("/")) == clients.EngineContainerd {
		return containerd.Clean(ctx, clients.Containerd(c, whose, "", log), whose)
	}
	d, err := docker.Connect(clients.Docker(c, whose, log))
	if err != nil {
		return 0, err
	}
	defer d.Close()
	return d.Clean(ctx, whose)
}
