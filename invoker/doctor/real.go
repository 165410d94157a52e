package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// Options say what Here looks at beside the configuration.
type Options struct {
	Config    *config.Config
	ConfigErr error
	// Source is the file that the settings come from; empty: the environment.
	Source  string
	Environ []string
	// Shim is the path of the shim library; empty means the usual places.
	Shim string
	// Self is the path of this program; the shim may lie beside it.
	Self string
	// NVML is the path of the driver's management library; empty lets the
	// loader find it.
	NVML string
	// Probe are images to run for a moment, each for at most ProbeLimit.
	Probe []string
	// Images are GPU actions' own: does the shim fit them?
	Images     []string
	ProbeLimit time.Duration
}

// Here is the host that this process runs on.
func Here(o Options) *Machine {
	r := &real{o}
	m := &Machine{
		Config: o.Config, ConfigErr: o.ConfigErr, Source: o.Source, Environ: o.Environ,
		Shim: shimPlaces(o), Arch: runtime.GOARCH, Now: time.Now(),
		Files: os.DirFS("/"), Command: command,
		Hooks: tryHooks, Docker: r.docker, Image: r.image, Probe: r.probe, Libc: r.libc, LibcImages: o.Images,
		Broker: r.broker, Reach: reach, Couch: r.couch, Records: r.records, Bucket: r.bucket, ZooKeeper: r.zooKeeper,
		Listen: listen, Ping: ping, Disk: disk, Writable: writable,
		ProbeImages: o.Probe, ProbeLimit: o.ProbeLimit,
	}
	m.GPU = func(ctx context.Context) (GPU, error) {
		g, err := r.gpu()
		if errors.Is(err, nvml.ErrNotBuilt) {
			if g, smiErr := m.askSMI(ctx); smiErr == nil {
				return g, nil
			}
		}
		return g, err
	}
	return m
}

// real asks the outside as the configuration says.
type real struct{ Options }

func (r *real) gpu() (g GPU, err error) {
	d, err := nvml.Open(nvml.Options{Library: r.NVML})
	if err != nil {
		return GPU{}, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	cards, err := d.Cards()
	return GPU{Versions: d.Versions(), Cards: cards, By: "NVML"}, err
}

// command runs a program with a bound on what it may print.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(c.Environ(), env...)
	c.WaitDelay = time.Second // for children that keep its output open
	var out capped
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	return string(out), err
}

// capped keeps the beginning of what is written to it.
type capped []byte

func (c *capped) Write(p []byte) (int, error) {
	const most = 64 << 10
	*c = append(*c, p[:min(len(p), most-len(*c))]...)
	return len(p), nil
}

func reach(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func listen(ctx context.Context, port int) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// ping asks whether an invoker listens on a port of this host. Its answer may
// be that it is not ready.
func ping(ctx context.Context, port int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("localhost", strconv.Itoa(port))+"/ping", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 100))
	if err != nil {
		return err
	}
	if s := string(text); s != "pong" && !strings.HasPrefix(s, "not ready") {
		return fmt.Errorf("what answers /ping with status %d is no invoker", res.StatusCode)
	}
	return nil
}

func disk(_ context.Context, path string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return Space{}, err
	}
	return Space{Free: int64(s.Bavail) * s.Bsize, Total: int64(s.Blocks) * s.Bsize}, nil
}

// noShim is the setting by which the shim is done without.
const noShim = "none"

// shimPlaces are where the invoker looks for the shim.
func shimPlaces(o Options) []string {
	if named := cmp.Or(o.Shim, o.Config.GPU.Shim.Library); named != "" && named != noShim {
		return []string{absolute(named)}
	}
	const name = "libgpuwhisk.so"
	dir := filepath.Dir(o.Self)
	return []string{absolute(filepath.Join(dir, name)), absolute(filepath.Join(dir, "../lib/gpuwhisk", name)), absolute("build/shim/" + name)}
}

func absolute(path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

// silent is for parts that log what the report says better.
func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }
