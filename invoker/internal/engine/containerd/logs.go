package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// LogCommand is the argument by which LogProgram is told to write a container's log.
const LogCommand = "container-log"

// The files that containerd gives to a program for logs: the container's streams, and one
// that is closed when the program is ready.
const (
	stdoutFile = 3
	stderrFile = 4
	readyFile  = 5
)

func logPath(dir string) string { return filepath.Join(dir, "json.log") }

// CopyLog writes the output of a container into a file, until the container has ended. The
// argument is the size in bytes at which the file is rotated, a colon, and the path.
// It is called in a program of its own, which containerd starts for each container and
// which outlives the invoker.
func CopyLog(argument string) error {
	text, path, _ := strings.Cut(argument, ":")
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || path == "" {
		return fmt.Errorf("%q is not of the form BYTES:PATH", argument)
	}
	// containerd sends the signal before the last output is read.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	out, err := logs.OpenWriter(path, limit)
	if err != nil {
		return err
	}
	var copies sync.WaitGroup
	for number, name := range map[uintptr]string{stdoutFile: "stdout", stderrFile: "stderr"} {
		stream, from := out.Stream(name), os.NewFile(number, name)
		copies.Go(func() {
			_, _ = io.Copy(stream, from) // it ends with the container
			stream.End()
		})
	}
	if err := os.NewFile(readyFile, "ready").Close(); err != nil {
		return fmt.Errorf("report that the log is open: %w", err)
	}
	copies.Wait()
	return out.Close()
}

// installLogProgram copies the program that writes logs into the state directory, which
// containerd's host has under the same path also when the invoker runs in a container. It
// returns the path of the copy. A copy that exists is used again if its size and time are
// those of the program.
func installLogProgram(program, stateDir string) (string, error) {
	if !filepath.IsAbs(stateDir) {
		return "", fmt.Errorf("the state directory must be an absolute path, not %q (whisk.gpu.containerd.state-dir)", stateDir)
	}
	wanted, err := os.Stat(program)
	if err != nil {
		return "", fmt.Errorf("find the program that writes containers' logs (whisk.gpu.containerd.log-program): %w", err)
	}
	path := filepath.Join(stateDir, "bin", LogCommand)
	if have, err := os.Stat(path); err == nil && have.Size() == wanted.Size() && have.ModTime().Equal(wanted.ModTime()) {
		return path, nil
	}
	if err := copyProgram(program, path, wanted.ModTime()); err != nil {
		return "", fmt.Errorf("copy the program that writes containers' logs (whisk.gpu.containerd.state-dir): %w", err)
	}
	return path, nil
}

// copyProgram replaces a program at once: containers may run the old one.
func copyProgram(from, to string, modified time.Time) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	part, err := os.CreateTemp(filepath.Dir(to), "part-")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // fails if all went well
	_, err = io.Copy(part, source)
	if err = errors.Join(err, part.Chmod(0o755), part.Close()); err != nil {
		return err
	}
	return errors.Join(os.Chtimes(part.Name(), modified, modified), os.Rename(part.Name(), to))
}

// openLog opens the log of a container. The file is there as soon as the container runs.
func (e *Engine) openLog(id container.ID) logs.Source {
	file, err := logs.OpenFile(logPath(e.dirOf(string(id))))
	if err != nil {
		return unreadable{err}
	}
	return file
}

// LogsReady reports whether Logs would return at once.
func (e *Engine) LogsReady(id container.ID, req container.LogRequest) bool {
	return e.roster.LogsReady(id, req)
}

// Logs reads the output of a container since the last call.
func (e *Engine) Logs(ctx context.Context, id container.ID, req container.LogRequest) container.LogResult {
	return e.roster.Logs(ctx, id, req)
}

// unreadable is a log that cannot be opened.
type unreadable struct{ err error }

func (u unreadable) Begin(context.Context, bool) error { return u.err }
func (u unreadable) Skip(context.Context) error        { return u.err }
func (u unreadable) Read([]byte) (int, error)          { return 0, u.err }
func (u unreadable) End()                              {}
func (u unreadable) Close() error                      { return nil }
