package docker

import (
	"cmp"
	"errors"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// errNoInit is a container that could not start because the daemon misses its own init
// program.
var errNoInit = errors.New("the daemon's init program is missing")

// inits decides whether a container's first process is the daemon's init program, as by
// docker run --init. It reaps the orphans that an action leaves behind. Without it they
// stay as zombies, and fill the pids limit.
//
// By default the images of the manifest have it, and images of users do not: one of
// these may have an init of its own, which refuses to be another process than the first.
// The extra argument init decides for all containers.
func (e *Engine) inits(spec container.Spec) bool {
	if own := e.host.host.Init; own != nil {
		return *own
	}
	return !spec.Pull && !e.withoutInit.Load()
}

// initMissing reports whether a container with an init could not start because the daemon
// does not find that program: Docker's, or Podman's.
func (e *Engine) initMissing(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	named := strings.Contains(text, cmp.Or(e.initBinary, "docker-init")) || strings.Contains(text, "container-init binary")
	return named && (strings.Contains(text, "not found") || strings.Contains(text, "no such file"))
}

// leaveOutInit has containers made without an init from now on. It reports whether they
// had one by default.
func (e *Engine) leaveOutInit(err error) bool {
	if e.host.host.Init != nil {
		return false
	}
	if !e.withoutInit.Swap(true) {
		e.log.Warn("containers have no init: orphans that an action leaves behind count against its pids limit",
			"error", err, "fix", "install docker-init (Debian: tini; Podman: catatonit)")
	}
	return true
}
