package mps

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// daemon is one device's. Only keep's goroutine starts and ends its processes.
type daemon struct {
	Options
	device string
	dir    string
	stop   <-chan struct{}
	first  chan error // how the first start went
}

func newDaemon(device string, o Options, stop <-chan struct{}) *daemon {
	return &daemon{Options: o, device: device, dir: filepath.Join(o.Dir, filepath.Base(device)), stop: stop, first: make(chan error, 1)}
}

func (d *daemon) pipe() string { return filepath.Join(d.dir, "pipe") }
func (d *daemon) logs() string { return filepath.Join(d.dir, "log") }
func (d *daemon) shm() string  { return filepath.Join(d.dir, "shm") }

// control is the pipe that the daemon makes when it serves.
func (d *daemon) control() string { return filepath.Join(d.pipe(), "control") }

// longestPath is the longest path of a unix socket (unix(7), without the closing zero).
// longestName is the longest name that the daemon gives to a socket.
const (
	longestPath = 107
	longestName = "control_privileged"
)

// prepare makes the directories. Containers' processes may be of any user.
func (d *daemon) prepare() error {
	if at := filepath.Join(d.pipe(), longestName); len(at) > longestPath {
		return fmt.Errorf("make directory of the MPS daemon of %s: %s has %d bytes, a socket's path may have %d",
			d.device, at, len(at), longestPath)
	}
	for dir, mode := range map[string]os.FileMode{d.pipe(): 0o755, d.logs(): 0o700, d.shm(): 0o777 | os.ModeSticky} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, mode)); err != nil {
			return fmt.Errorf("make directory of the MPS daemon of %s: %w", d.device, err)
		}
	}
	return nil
}

func (d *daemon) remove() error {
	if err := os.RemoveAll(d.dir); err != nil {
		return fmt.Errorf("remove directory of the MPS daemon of %s: %w", d.device, err)
	}
	return nil
}

// await waits for the first start.
func (d *daemon) await(ctx context.Context) error {
	select {
	case err := <-d.first:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the MPS daemon of %s: %w", d.device, context.Cause(ctx))
	}
}

// keep starts the daemon, and again each time that it ends by itself, until
// stop. The kernel ends a daemon with the thread that started it, so that none
// outlives this process; the thread is therefore this goroutine's alone.
func (d *daemon) keep() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d.dismiss() // ends a daemon that a former invoker left
	p, err := d.launch()
	d.first <- err
	backoff := retry.Backoff{Min: d.FirstPause, Max: d.LongestPause}
	for err == nil {
		since := time.Now()
		end := d.watch(p)
		if end == nil {
			return // by Close
		}
		if time.Since(since) > d.LongestPause {
			backoff.Reset()
		}
		d.Lost(d.device, "its MPS daemon ended")
		p, err = d.relaunch(end, &backoff)
	}
}

// errStopped means that the daemon was stopped first.
var errStopped = errors.New("stopped")

// relaunch starts the daemon after an end, as often as it takes.
func (d *daemon) relaunch(end error, backoff *retry.Backoff) (*process, error) {
	for {
		pause := backoff.Next()
		d.Log.Error("MPS daemon ended by itself: functions on its device fail until it serves again",
			"device", d.device, "error", end, "pause", pause)
		if !retry.SleepUnless(d.stop, pause) {
			return nil, errStopped
		}
		p, err := d.launch()
		if err == nil {
			d.Log.Info("MPS daemon serves again", "device", d.device)
			d.Back(d.device)
			return p, nil
		}
		if errors.Is(err, errStopped) {
			return nil, err
		}
		end = err
	}
}

// launch starts the daemon and waits until it serves.
func (d *daemon) launch() (*process, error) {
	p, err := d.start()
	if err != nil {
		return nil, err
	}
	return p, d.serves(p)
}

// process is a daemon that was started.
type process struct {
	cmd    *exec.Cmd
	output *tail
	ended  chan struct{} // closed when err is set
	err    error
}

// ownShm starts a program with a directory as its /dev/shm. The
// namespace that the mount is made in is the program's alone.
const ownShm = `mount --bind "$0" /dev/shm && exec "$@"`

func (d *daemon) start() (*process, error) {
	if err := d.sweep(); err != nil {
		return nil, err
	}
	argv := []string{d.Program, "-f"}
	if d.Apart {
		argv = append([]string{"/bin/sh", "-c", ownShm, d.shm()}, argv...)
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), output: &tail{}, ended: make(chan struct{})}
	p.cmd.Env = d.env()
	p.cmd.Dir = "/"
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.WaitDelay = time.Second // a server that outlives it may keep its output open
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if d.Apart {
		p.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the MPS daemon of %s: %w%s", d.device, err, d.advice(err))
	}
	go func() { // ends with the process, which watch and serves wait for
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// advice adds the missing right to an error if a mount namespace is not allowed.
func (d *daemon) advice(err error) string {
	if d.Apart && errors.Is(err, os.ErrPermission) {
		return " (a daemon with a /dev/shm of its own takes the right to mount: root, and CAP_SYS_ADMIN in a container)"
	}
	return ""
}

// env is all that the daemon gets.
func (d *daemon) env() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"CUDA_VISIBLE_DEVICES=" + d.device,
		"CUDA_MPS_PIPE_DIRECTORY=" + d.pipe(),
		"CUDA_MPS_LOG_DIRECTORY=" + d.logs(),
	}
}

// sweep removes the files that a former daemon left in the directory of its pipes. The
// directory itself stays, because containers may have it mounted.
func (d *daemon) sweep() error {
	left, err := os.ReadDir(d.pipe())
	for _, entry := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(d.pipe(), entry.Name())))
	}
	if err != nil {
		return fmt.Errorf("clear pipes of the MPS daemon of %s: %w", d.device, err)
	}
	return nil
}

// serveTick is the pause between two checks whether a daemon serves.
const serveTick = 10 * time.Millisecond

// serves blocks until the daemon listens. It ends a daemon that does not listen in time.
func (d *daemon) serves(p *process) error {
	limit := time.NewTimer(d.StartLimit)
	defer limit.Stop()
	tick := time.NewTicker(serveTick)
	defer tick.Stop()
	for {
		if _, err := os.Stat(d.control()); err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return d.died(p)
		case <-d.stop:
			d.kill(p)
			return errStopped
		case <-limit.C:
			d.kill(p)
			return fmt.Errorf("MPS daemon of %s does not serve after %v%s", d.device, d.StartLimit, p.output.String())
		case <-tick.C:
		}
	}
}

// watch waits until the daemon ends by itself, which is an error, or is ended
// on stop.
func (d *daemon) watch(p *process) error {
	select {
	case <-p.ended:
		return d.died(p)
	case <-d.stop:
	}
	d.dismiss()
	timer := time.NewTimer(d.EndLimit)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		d.Log.Warn("MPS daemon does not end on quit", "device", d.device)
	}
	d.kill(p)
	return nil
}

// died describes an end, and ends the servers that the daemon had started:
// they would block the next one on the device.
func (d *daemon) died(p *process) error {
	d.kill(p)
	reason := "exit code 0"
	if p.err != nil {
		reason = p.err.Error()
	}
	return fmt.Errorf("MPS daemon of %s ended: %s%s", d.device, reason, p.output.String())
}

// killTime is how long a daemon that was killed may take to end.
const killTime = 10 * time.Second

// kill ends the daemon's process group and waits for the daemon for a limited time: a
// daemon that hangs in the driver of a dead device ends only when the device is back.
func (d *daemon) kill(p *process) {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // none left: nothing to do
	select {
	case <-p.ended:
	case <-time.After(killTime):
		d.Log.Error("MPS daemon was killed and does not end: it hangs in the kernel", "device", d.device)
	}
}

// dismiss sends quit to a daemon, if one listens.
func (d *daemon) dismiss() {
	if _, err := os.Stat(d.control()); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.EndLimit)
	defer cancel()
	quit := exec.CommandContext(ctx, d.Program)
	quit.Env = d.env()
	quit.Stdin = strings.NewReader("quit -t 1\n")
	quit.WaitDelay = time.Second
	if err := quit.Run(); err != nil {
		d.Log.Debug("quit MPS daemon", "device", d.device, "error", err)
	}
}

// tail keeps the end of what a daemon prints: in the foreground it prints
// a line for every client.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 2048
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-most):]
	return len(p), nil
}

// String is the output, for the text of an error.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.Join(strings.Fields(string(t.text)), " ")
	if text == "" {
		return ""
	}
	return ", it printed: " + text
}
