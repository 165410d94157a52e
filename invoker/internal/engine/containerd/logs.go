package containerd

import (
	"context"
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

func logPath(dir string) string { return filepath.Join(dir, "json.log") }

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
