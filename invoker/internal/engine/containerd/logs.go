package containerd

import (
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

func logPath(dir string) string { return filepath.Join(dir, "json.log") }

// openLog opens the log of a container. The file is there as soon as the container runs.
func (e *Engine) openLog(id container.ID) (logs.Source, error) {
	return logs.OpenFile(logPath(e.dirOf(string(id))))
}
