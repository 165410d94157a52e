package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// Survey is what a Docker daemon says about itself.
type Survey struct {
	Version, API    string
	Storage         string // the storage driver
	LogDriver       string // of containers that ask for none
	CgroupDriver    string // cgroupfs or systemd
	CgroupVersion   string
	Root            string // the daemon's directory, as the daemon sees it
	Runtimes        []string
	DefaultRuntime  string
	CDIDirs         []string // empty: the daemon does not know CDI
	MemoryBytes     int64
	CPUs            int
	Architecture    string
	SecurityOptions []string
}

// Image is what an image says about itself.
type Image struct {
	Entrypoint, Cmd, Env []string
	Ports                []string // such as 8080/tcp
	Labels               map[string]string
	Architecture         string
}

// Daemon is a Docker daemon that is only looked at.
type Daemon struct {
	api *client.Client
}

// Look connects to the daemon that the options name. Only the host and the
// certificates of the options matter. Nothing is asked yet.
func Look(options Options) (*Daemon, error) {
	api, err := options.connect()
	if err != nil {
		return nil, fmt.Errorf("connect to docker: %w", err)
	}
	return &Daemon{api}, nil
}

// Close ends the connection.
func (d *Daemon) Close() error { return d.api.Close() }

// Survey asks the daemon what it is.
func (d *Daemon) Survey(ctx context.Context) (Survey, error) {
	result, err := d.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Survey{}, fmt.Errorf("ask docker what it is: %w", err)
	}
	i := result.Info
	return Survey{
		Version: i.ServerVersion, API: d.api.ClientVersion(), Storage: i.Driver, LogDriver: i.LoggingDriver,
		CgroupDriver: i.CgroupDriver, CgroupVersion: i.CgroupVersion, Root: i.DockerRootDir,
		Runtimes: slices.Sorted(maps.Keys(i.Runtimes)), DefaultRuntime: i.DefaultRuntime,
		CDIDirs: i.CDISpecDirs, MemoryBytes: i.MemTotal, CPUs: i.NCPU, Architecture: i.Architecture,
		SecurityOptions: i.SecurityOptions,
	}, nil
}

// Image describes an image. The second value is false when the daemon has no
// such image; it is not pulled.
func (d *Daemon) Image(ctx context.Context, reference string) (Image, bool, error) {
	result, err := d.api.ImageInspect(ctx, reference)
	if cerrdefs.IsNotFound(err) {
		return Image{}, false, nil
	}
	if err != nil {
		return Image{}, false, fmt.Errorf("inspect image %s: %w", reference, err)
	}
	image := Image{Architecture: result.Architecture}
	if c := result.Config; c != nil {
		image.Entrypoint, image.Cmd, image.Env, image.Labels = c.Entrypoint, c.Cmd, c.Env, c.Labels
		image.Ports = slices.Sorted(maps.Keys(c.ExposedPorts))
	}
	return image, true, nil
}
