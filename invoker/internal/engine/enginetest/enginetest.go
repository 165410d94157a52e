// Package enginetest states in tests the demands of the invoker on every container
// engine. An engine's own tests call Run with a real daemon.
package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// Engine is the engine under test.
type Engine interface {
	invoker.Engine
	invoker.Daemon
	Close() error
}

// Settings are the options in which tests differ.
type Settings struct {
	Prefix      string
	CapDrop     []string
	PidsLimit   int64
	MaxLogBytes int64
	ExtraArgs   map[string][]string
}

// Host is a real daemon with the image of the tests' action proxy.
type Host struct {
	Image string
	// Open opens an engine, which the suite closes. Two engines with one prefix are an
	// invoker before and after a kill -9.
	Open func(t testing.TB, s Settings) Engine
	// ImageWith makes an image of the proxy with a command and variables of its own, and
	// returns its name, which ends with a tag. A second image of one tag takes the name of
	// the first. The caller need not remove it.
	ImageWith func(t testing.TB, tag string, command []string, env ...string) string
	// NotApart is the reason why this machine cannot keep containers apart, or empty.
	NotApart string
	// Vanish removes a container behind the engine's back.
	Vanish func(t testing.TB, id container.ID)
}

// Waits are so long that no daemon is slow enough to use them up.
func Waits() logs.Waits {
	w := logs.DefaultWaits()
	w.Idle, w.OtherStream = time.Minute, time.Minute
	return w
}

// ProxyTar returns the file system of the proxy's image: one static program, /proxy.
func ProxyTar() ([]byte, error) {
	dir, err := os.MkdirTemp("", "proxy")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "proxy")
	build := exec.Command("env", "CGO_ENABLED=0", "go", "build", "-o", binary, "github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest/testdata/proxy")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build proxy: %w: %s", err, out)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "proxy", Mode: 0o755, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil { // writes the end of the archive
		return nil, err
	}
	return buf.Bytes(), nil
}

// subject is an engine with the containers that a test makes.
type subject struct {
	Engine
	t        testing.TB
	host     Host
	settings Settings
	made     int
}

func (h Host) start(t testing.TB, change func(*Settings)) *subject {
	t.Helper()
	s := Settings{Prefix: fmt.Sprintf("gwt%d_%d_", os.Getpid(), time.Now().UnixNano()), CapDrop: []string{"NET_RAW", "NET_ADMIN"}, PidsLimit: 1024}
	if change != nil {
		change(&s)
	}
	e := &subject{Engine: h.Open(t, s), t: t, host: h, settings: s}
	t.Cleanup(func() {
		check.NoError(t, e.CleanUp(context.Background(), s.Prefix))
		left, err := e.Leftovers(context.Background(), s.Prefix)
		check.NoError(t, err)
		check.Equal(t, len(left), 0, "left behind: %v", left)
		check.NoError(t, e.Close())
	})
	return e
}

func (s *subject) spec() container.Spec {
	s.made++
	return container.Spec{
		Name: fmt.Sprintf("%s%d_test", s.settings.Prefix, s.made), Kind: "blackbox", Image: s.host.Image,
		MemoryMB: 128, CPUShares: 128, Env: []string{"__OW_API_HOST=https://example"},
	}
}

func (s *subject) create() container.Handle {
	s.t.Helper()
	h, err := s.Create(s.t.Context(), s.spec())
	check.NoError(s.t, err)
	return h
}

func (s *subject) awaitDeath() container.ID {
	s.t.Helper()
	select {
	case id := <-s.Died():
		return id
	case <-time.After(time.Minute):
		s.t.Fatal("no death was reported")
		return ""
	}
}
