package docker

import (
	"context"
	"errors"
	"fmt"

	containertypes "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// LogSettings are the log driver of a container, with the driver's options.
type LogSettings struct {
	Driver  string
	Options map[string]string
}

// DefaultLogs returns the log settings that the daemon gives to a container that
// requests none. The daemon shows them only on a container, so one of the image is
// created, not started, and removed.
func (d *Daemon) DefaultLogs(ctx context.Context, reference string) (settings LogSettings, err error) {
	err = d.withCreated(ctx, reference, func(id string) error {
		result, err := d.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if err != nil {
			return fmt.Errorf("inspect a container of %s: %w", reference, err)
		}
		if host := result.Container.HostConfig; host != nil {
			settings = LogSettings{host.LogConfig.Type, host.LogConfig.Config}
		}
		return nil
	})
	return settings, err
}

// withCreated calls use with a container of the image, which is never started, and
// removes the container.
func (d *Daemon) withCreated(ctx context.Context, reference string, use func(id string) error) (err error) {
	created, err := d.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &containertypes.Config{Image: reference, Cmd: []string{"/nothing"}},
	})
	if err != nil {
		return fmt.Errorf("create a container of %s: %w", reference, err)
	}
	defer func() {
		bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		_, rerr := d.api.ContainerRemove(bye, created.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		err = errors.Join(err, rerr)
	}()
	return use(created.ID)
}
