package process

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

const (
	// socketName is the proxy's Unix socket in the directory of its container, which
	// only this user may enter. The proxy binds it by a path relative to its home,
	// because the path of a socket is limited to 107 bytes.
	socketName = "proxy.sock"
	// markerVar is the variable that identifies a process and its descendants. Its value
	// is the container's id, which cannot be guessed. Its name does not begin like
	// OpenWhisk's variables, because actions list those.
	markerVar = "GPUWHISK_CONTAINER"
	// noFile is the limit on open files of a Docker container. oomScore makes the kernel
	// kill actions before the invoker.
	noFile   = 1024
	oomScore = "500"
)

var errClosed = errors.New("process engine is closed")

// Create starts the proxy for the container's kind. It does not wait until the proxy
// listens.
func (e *Engine) Create(ctx context.Context, spec container.Spec) (container.Handle, error) {
	runtime, ok := e.options.runtime(spec.Kind)
	if !ok {
		return container.Handle{}, &container.CreateError{
			Blame:   container.BlameDeveloper,
			Message: "The process runtime cannot run actions of kind '" + spec.Kind + "'.",
		}
	}
	handle, err := e.launch(ctx, spec, runtime)
	if err != nil {
		return container.Handle{}, &container.CreateError{
			Blame:   container.BlameWhisk,
			Message: "Failed to provision resources to run the action.",
			Err:     fmt.Errorf("start process %s: %w", spec.Name, err),
		}
	}
	return handle, nil
}

func (e *Engine) launch(ctx context.Context, spec container.Spec, runtime Runtime) (container.Handle, error) {
	if err := ctx.Err(); err != nil {
		return container.Handle{}, err
	}
	c, err := e.prepare(spec)
	if err != nil {
		return container.Handle{}, err
	}
	cmd, err := e.command(c, spec, runtime)
	if err == nil {
		err = e.start(c, cmd)
	}
	if err != nil {
		c.cancel()
		return container.Handle{}, errors.Join(err, os.RemoveAll(c.dir))
	}
	if !e.adopt(c) {
		_ = e.end(c)
		return container.Handle{}, errClosed
	}
	e.handOut(c)
	e.guard.wake()
	return container.Handle{ID: c.id, Name: spec.Name, Addr: filepath.Join(c.dir, socketName)}, nil
}

// Dial connects to a proxy by the path of its socket. It connects through a descriptor
// of the socket's directory, because the path may be too long.
func (e *Engine) Dial(ctx context.Context, _, path string) (net.Conn, error) {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("find the socket of an action proxy: %w", err)
	}
	defer dir.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}

// prepare creates the container's directory.
func (e *Engine) prepare(spec container.Spec) (*child, error) {
	if spec.Name == "" || strings.ContainsAny(spec.Name, "/\x00") {
		return nil, fmt.Errorf("container name %q is not a file name", spec.Name)
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails, by its documentation
	id := spec.Name + "." + hex.EncodeToString(random[:])
	dir := filepath.Join(e.options.StateDir, id)
	for _, d := range []string{dir, filepath.Join(dir, "home"), filepath.Join(dir, "tmp")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("make directory: %w", err), os.RemoveAll(dir))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &child{
		ctx: ctx, cancel: cancel, id: container.ID(id), name: spec.Name, dir: dir,
		limit: spec.Limit(), ended: make(chan struct{}),
	}, nil
}

// command builds the process with a separate environment: it inherits no variable of
// ours, and so no secret.
func (e *Engine) command(c *child, spec container.Spec, runtime Runtime) (*exec.Cmd, error) {
	path, err := exec.LookPath(runtime.Argv[0])
	if err != nil {
		return nil, fmt.Errorf("find proxy: %w", err)
	}
	home := filepath.Join(c.dir, "home")
	env := []string{"PATH=" + e.options.Path, "LANG=C.UTF-8"}
	own := spec.Env
	if spec.GPU != nil {
		own = slices.DeleteFunc(slices.Clone(own), steering)
	}
	env = append(append(env, runtime.Env...), own...)
	env = append(env,
		"HOME="+home,
		"TMPDIR="+filepath.Join(c.dir, "tmp"),
		"__OW_PROXY_SOCKET="+filepath.Join("..", socketName),
		markerVar+"="+string(c.id),
		"CUDA_VISIBLE_DEVICES=-1", // no device, unless spec.GPU has one
	)
	if spec.GPU != nil {
		env = append(env, spec.GPU.Env...) // the last value of a name wins
	}
	return &exec.Cmd{
		Path: path, Args: runtime.Argv, Env: env, Dir: home,
		SysProcAttr: &syscall.SysProcAttr{
			Setsid:    true,            // its own group and session, to end them together
			Pdeathsig: syscall.SIGKILL, // it dies with us, however we end
		},
	}, nil
}

// steering reports whether a variable would change which device or driver a GPU process
// finds. Only the device may set such variables.
func steering(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return container.IsReservedEnv(name)
}

// start runs the process, and starts to copy its output and to wait for its end.
func (e *Engine) start(c *child, cmd *exec.Cmd) error {
	out, err := logs.OpenWriter(c.logPath(), e.options.MaxLogBytes)
	if err != nil {
		return err
	}
	log, err := logs.OpenFile(c.logPath())
	if err != nil {
		return errors.Join(err, out.Close())
	}
	c.streams = [2]*logs.Stream{out.Stream("stdout"), out.Stream("stderr")}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.streams[0], c.streams[1], printDelay
	if err := e.starter.start(cmd); err != nil {
		return errors.Join(err, out.Close(), log.Close())
	}
	c.pid, c.cmd, c.output = cmd.Process.Pid, cmd, out
	limitFiles(c.pid)
	c.tail = logs.NewTail(log, e.options.LogWaits)
	c.wg.Go(func() { e.await(c) })
	return nil
}

// limitFiles sets the same limits as Docker. The process is already running, but it has
// no time to open a thousand files before.
func limitFiles(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: noFile, Max: noFile}, nil)
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte(oomScore), 0)
}

// adopt registers the child. It returns false if the engine is closed.
func (e *Engine) adopt(c *child) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.live[c.id] = c
	}
	return !e.closed
}

// handOut records that the caller has the child. If the child has died meanwhile, its
// death is reported now.
func (e *Engine) handOut(c *child) {
	c.mu.Lock()
	c.handedOut = true
	dead := c.reaped
	c.mu.Unlock()
	if dead {
		e.log.Warn("a process ended as it began", "container", c.id, "state", c.state)
		e.reportDeath(c.id)
	}
}
