package containerd

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

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
