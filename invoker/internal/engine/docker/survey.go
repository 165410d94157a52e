package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// Survey is the report of a Docker daemon about itself.
type Survey struct {
	Version, API    string
	Storage         string // the storage driver
	LogDriver       string // of containers that request none
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

// Image is the metadata of an image.
type Image struct {
	Entrypoint, Cmd, Env []string
	Ports                []string // such as 8080/tcp
	Labels               map[string]string
	Architecture         string
}

// Daemon is a Docker daemon that is only queried.
type Daemon struct {
	api *client.Client
}

// Connect connects to the daemon that the options name. Only the host and the
// certificates of the options matter. Nothing is asked yet.
func Connect(options Options) (*Daemon, error) {
	api, err := options.connect()
	if err != nil {
		return nil, fmt.Errorf("connect to docker: %w", err)
	}
	return &Daemon{api}, nil
}

// Close ends the connection.
func (d *Daemon) Close() error { return d.api.Close() }

// Survey asks the daemon for its report.
func (d *Daemon) Survey(ctx context.Context) (Survey, error) {
	result, err := d.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return Survey{}, fmt.Errorf("ask docker for its version: %w", err)
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

// Libc is the C library of an image.
type Libc struct {
	// Name is glibc, musl, or empty where neither is found.
	Name string
	// Major and Minor are glibc's version.
	Major, Minor int
	// Lacks names the parts of older glibcs that libraries built for those ask for,
	// and that the image does not have beside its libc.so.6; empty for none.
	Lacks string
}

// libcParts are part of libc.so.6 since glibc 2.34. Distributions still have them,
// empty; thinned-out images may not.
var libcParts = []string{"libpthread.so.0", "libdl.so.2"}

// libcFiles are where distributions put the library or its loader.
var libcFiles = []struct{ name, path string }{
	{"glibc", "/lib/x86_64-linux-gnu/libc.so.6"},
	{"glibc", "/lib/aarch64-linux-gnu/libc.so.6"},
	{"glibc", "/lib64/libc.so.6"},
	{"glibc", "/usr/lib/libc.so.6"},
	{"musl", "/lib/ld-musl-x86_64.so.1"},
	{"musl", "/lib/ld-musl-aarch64.so.1"},
}

// Libc finds the C library of an image that exists, in a container that is created, not
// started, and removed.
func (d *Daemon) Libc(ctx context.Context, reference string) (found Libc, err error) {
	err = d.withCreated(ctx, reference, func(id string) error {
		found, err = d.libc(ctx, id)
		return err
	})
	if err != nil {
		return Libc{}, fmt.Errorf("look into image %s: %w", reference, err)
	}
	return found, nil
}

func (d *Daemon) libc(ctx context.Context, id string) (Libc, error) {
	for _, file := range libcFiles {
		data, err := d.file(ctx, id, file.path)
		switch {
		case cerrdefs.IsNotFound(err):
			continue
		case err != nil:
			return Libc{}, fmt.Errorf("read %s: %w", file.path, err)
		case file.name == "musl":
			return Libc{Name: "musl"}, nil
		}
		found, err := glibc(data)
		if err == nil {
			found.Lacks, err = d.lacks(ctx, id)
		}
		return found, err
	}
	return Libc{}, nil
}

// lacks names the parts that are in none of the directories.
func (d *Daemon) lacks(ctx context.Context, id string) (string, error) {
	var lacking []string
	for _, part := range libcParts {
		there := false
		for _, file := range libcFiles {
			if file.name != "glibc" || there {
				continue
			}
			_, _, err := d.entry(ctx, id, path.Join(path.Dir(file.path), part))
			if err != nil && !cerrdefs.IsNotFound(err) {
				return "", fmt.Errorf("look for %s: %w", part, err)
			}
			there = err == nil
		}
		if !there {
			lacking = append(lacking, part)
		}
	}
	return strings.Join(lacking, " "), nil
}

// removeTime bounds the removal of a container that was only looked at.
const removeTime = 10 * time.Second

// maxLibc is more than any C library has, maxLinks more than lie before one.
const (
	maxLibc  = 64 << 20
	maxLinks = 8
)

// file reads a file of a container, through links.
func (d *Daemon) file(ctx context.Context, id, name string) ([]byte, error) {
	for range maxLinks {
		data, link, err := d.entry(ctx, id, name)
		if err != nil || link == "" {
			return data, err
		}
		if !path.IsAbs(link) {
			link = path.Join(path.Dir(name), link)
		}
		name = link
	}
	return nil, fmt.Errorf("more than %d links", maxLinks)
}

// entry reads one file, or where a link leads.
func (d *Daemon) entry(ctx context.Context, id, name string) (data []byte, link string, err error) {
	got, err := d.api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: name})
	if err != nil {
		return nil, "", err
	}
	defer got.Content.Close()
	archive := tar.NewReader(got.Content)
	h, err := archive.Next()
	if err != nil {
		return nil, "", err
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil, h.Linkname, nil
	}
	data, err = io.ReadAll(io.LimitReader(archive, maxLibc))
	return data, "", err
}

// glibc finds the version by the newest that the library defines for programs.
func glibc(data []byte) (Libc, error) {
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return Libc{}, fmt.Errorf("read libc.so.6: %w", err)
	}
	versions, err := file.DynamicVersions()
	if err != nil {
		return Libc{}, fmt.Errorf("read the versions of libc.so.6: %w", err)
	}
	found := Libc{Name: "glibc"}
	for _, v := range versions {
		var major, minor int
		if n, _ := fmt.Sscanf(v.Name, "GLIBC_%d.%d", &major, &minor); n == 2 && major*1000+minor > found.Major*1000+found.Minor {
			found.Major, found.Minor = major, minor
		}
	}
	return found, nil
}
