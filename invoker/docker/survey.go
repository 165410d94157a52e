package docker

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
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
	ShowingRuntimes []string // those that are NVIDIA's, whatever their name
	CDIDirs         []string // empty: the daemon does not know CDI
	CDIDevices      []string // as the daemon lists them, which older ones do not
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
	return survey(result.Info, d.api.ClientVersion()), nil
}

func survey(i system.Info, version string) Survey {
	s := Survey{
		Version: i.ServerVersion, API: version, Storage: i.Driver, LogDriver: i.LoggingDriver,
		CgroupDriver: i.CgroupDriver, CgroupVersion: i.CgroupVersion, Root: i.DockerRootDir,
		Runtimes: slices.Sorted(maps.Keys(i.Runtimes)), DefaultRuntime: i.DefaultRuntime,
		CDIDirs: i.CDISpecDirs, MemoryBytes: i.MemTotal, CPUs: i.NCPU, Architecture: i.Architecture,
		SecurityOptions: i.SecurityOptions,
	}
	for _, name := range s.Runtimes {
		if strings.Contains(path.Base(i.Runtimes[name].Path), "nvidia-container-runtime") {
			s.ShowingRuntimes = append(s.ShowingRuntimes, name)
		}
	}
	for _, d := range i.DiscoveredDevices {
		if d.Source == "cdi" {
			s.CDIDevices = append(s.CDIDevices, d.ID)
		}
	}
	return s
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
