package assembly

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl/shimtest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/simulated"
)

// simulatedGPUs is a configuration of the process runtime with two simulated
// devices and the fake driver.
func simulatedGPUs(t *testing.T) *config.Config {
	t.Helper()
	dir := shimtest.Dir(t)
	c := config.Default()
	c.Runtimes.Kind, c.Process.Dir = "process", t.TempDir()
	c.GPU.SimulatedDevices, c.GPU.FakeDriver = 2, filepath.Join(dir, "fake12")
	c.GPU.Shim.Library = filepath.Join(dir, devices.LibraryName)
	return c
}

// opened opens the GPUs of a configuration. The text is the log.
func opened(t *testing.T, c *config.Config, self string) (*gpus, string, error) {
	t.Helper()
	var message bytes.Buffer
	g := &newAssembly(Options{Config: c, Self: self, Log: slog.New(slog.NewTextHandler(&message, nil))}).gpus
	err := g.find(t.Context())
	if err == nil {
		t.Cleanup(func() {
			if err := g.close(); err != nil {
				t.Error(err)
			}
		})
	}
	return g, message.String(), err
}

func TestSimulatedMemoryOrShim(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "bin", "gpuwhisk")
	for _, c := range []struct {
		name   string
		change func(*config.Config)
		shim   bool
		want   string
	}{
		{"shim and fake driver", func(*config.Config) {}, true, ""},
		{"no fake driver", func(c *config.Config) { c.GPU.FakeDriver = "" }, false, ""},
		{"docker", func(c *config.Config) { c.Runtimes.Kind, c.GPU.Shim.Dir = "docker", t.TempDir() }, true, ""},
		{"no library", func(c *config.Config) { c.GPU.Shim.Library = "none" }, true, "run without the shim"},
		{"none found", func(c *config.Config) { c.GPU.Shim.Library = "" }, true, "no libgpuwhisk.so was found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := simulatedGPUs(t)
			c.change(cfg)
			g, message, err := opened(t, cfg, nowhere)
			check.NoError(t, err)
			check.Equal(check.Must(t), len(g.devices), 2)
			check.That(t, g.devices[1].Simulated)
			_, pretends := g.mover.(*simulated.Mover)
			check.Equal(t, pretends, !c.shim, "the mover is a %T", g.mover)
			if strings.Contains(message, "needs glibc of this version") && c.name == "docker" {
				message = "" // by the compiler that built it
			}
			check.Contains(t, message, c.want)
			if c.want == "" {
				check.Equal(t, message, "")
			}
		})
	}
}

// Parts that the operator named must be usable. An error names the key.
func TestUnfitParts(t *testing.T) {
	text := filepath.Join(t.TempDir(), devices.LibraryName)
	check.NoError(t, os.WriteFile(text, []byte("no library\n"), 0o755))
	blocked := filepath.Join(text, "below")
	for _, c := range []struct {
		key    string
		change func(*config.Config)
	}{
		{"whisk.gpu.shim.library", func(c *config.Config) { c.GPU.Shim.Library = text + ".none" }},
		{"whisk.gpu.shim.library", func(c *config.Config) { c.GPU.Shim.Library = text }},
		{"whisk.gpu.fake-driver", func(c *config.Config) { c.GPU.FakeDriver = filepath.Dir(text) }},
		{"whisk.gpu.shim.dir", func(c *config.Config) { c.GPU.Shim.Dir = blocked }},
		{"whisk.gpu.shim.dir", func(c *config.Config) { c.GPU.Shim.Dir = "/tmp/" + strings.Repeat("x", 100) }},
	} {
		cfg := simulatedGPUs(t)
		c.change(cfg)
		_, _, err := opened(t, cfg, text)
		check.ErrorContains(t, err, c.key+": ", "%+v", cfg.GPU)
	}
	// Containers get the fake driver only beside the shim.
	for _, library := range []string{"", "none"} {
		cfg := simulatedGPUs(t)
		cfg.Runtimes.Kind, cfg.GPU.Shim.Dir, cfg.GPU.Shim.Library = "docker", t.TempDir(), library
		_, _, err := opened(t, cfg, filepath.Join(t.TempDir(), "bin", "gpuwhisk"))
		check.ErrorContains(t, err, "whisk.gpu.fake-driver: ", "library %q", library)
	}
	// A shim that was found by default may be unusable.
	cfg := simulatedGPUs(t)
	cfg.GPU.Shim.Library = ""
	_, message, err := opened(t, cfg, text)
	check.NoError(t, err)
	check.Contains(t, message, "level=WARN")
	check.Contains(t, message, "not a shared object")
}

// Without a driver auto finds nothing, and devices that are named are an error.
func TestDevicesOfThisHost(t *testing.T) {
	c := config.Default()
	for _, word := range []string{"auto", "none"} {
		c.GPU.Devices = word
		g, _, err := opened(t, c, "")
		check.NoError(t, err, "%s", word)
		if word == "none" {
			check.Equal(t, len(g.devices), 0)
		}
	}
	c.GPU.Devices = "GPU-unknown"
	_, _, err := opened(t, c, "")
	check.ErrorContains(t, err, "whisk.gpu.devices: ")
}

func TestSocketDirs(t *testing.T) {
	c := simulatedGPUs(t)
	own := filepath.Join(c.Process.Dir, "wsk00_", "shim")
	named := t.TempDir()
	for _, x := range []struct{ dir, want string }{
		{"", own}, {named, filepath.Join(named, "wsk00_")},
	} {
		c.GPU.Shim.Dir = x.dir
		got, err := socketDir(c, "wsk00_")
		check.NoError(t, err, "%q", x.dir)
		check.Equal(t, got, x.want, "%q", x.dir)
	}
	c.GPU.Shim.Dir, c.Process.Dir = "", filepath.Join(t.TempDir(), strings.Repeat("x", 90))
	short := c.SocketDirs("wsk00_", os.TempDir())[1]
	t.Cleanup(func() { _ = os.Remove(short) })
	got, err := socketDir(c, "wsk00_")
	check.NoError(t, err, "where the path is too long")
	check.Equal(t, got, short, "where the path is too long")
}

// Settings count every device, however it was found.
func TestGPUSettings(t *testing.T) {
	c := config.Default()
	c.GPU.Tokens.Max, c.GPU.Tokens.Dynamic, c.GPU.Tokens.Threshold, c.GPU.AckTimeout = 3, true, 0.8, 7*time.Second
	m := noKinds(t)
	without := settings(c, activation.Instance{}, m, nil)
	s := settings(c, activation.Instance{}, m, simulated.Devices(2, 1<<30))
	check.Equal(t, len(s.GPU.Devices), 2)
	check.Equal(t, s.InFlight, without.InFlight)
	check.Equal(t, s.GPU.BacklogBytes, int64(c.GPU.BacklogSize))
	check.Equal(t, s.GPU.Tokens.Max, 3)
	check.That(t, s.GPU.Tokens.Dynamic)
	check.Equal(t, s.GPU.Tokens.Threshold, 0.8)
	check.Equal(t, s.GPU.AckTimeout, 7*time.Second)
	check.NoError(t, s.GPU.Tokens.Validate())
}

// TestShimIsTried: a library that programs of this host cannot load is found
// before the first function is.
func TestShimIsTried(t *testing.T) {
	if _, err := exec.LookPath("true"); err != nil {
		t.Skip("no program to try it with")
	}
	c := simulatedGPUs(t)
	data, err := os.ReadFile(c.GPU.Shim.Library)
	check.NoError(t, err)
	c.GPU.Shim.Library = filepath.Join(t.TempDir(), devices.LibraryName)
	data = bytes.ReplaceAll(data, []byte("libc.so.6"), []byte("libc.so.7"))
	check.NoError(t, os.WriteFile(c.GPU.Shim.Library, data, 0o755))
	if _, _, err := opened(t, c, ""); !errors.Is(err, devices.ErrUnfit) {
		t.Errorf("a library for another C library: %v", err)
	}
}
