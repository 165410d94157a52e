package assembly

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/userlogs"
)

// logFilesStatus is what /status shows of the files of actions' logs.
type logFilesStatus struct {
	Trouble string `json:"trouble,omitempty"` // why nothing is written
	Dropped int64  `json:"dropped"`           // activations whose lines are in no file
}

// openUserLogs opens the files of actions' logs where the configuration asks for
// them.
func (a *assembly) openUserLogs(context.Context) (err error) {
	f := a.c.Logs.Files
	if !f.Enabled {
		return nil
	}
	a.userLogs, err = userlogs.New(userlogs.Config{Dir: f.Dir, FileSize: int64(f.Size), Buffer: int64(f.Size), Log: a.Log})
	if err != nil {
		return fmt.Errorf("%w (whisk.gpu.log.directory)", err)
	}
	return nil
}

// lastLines is how long the end waits for a disk that takes no log lines. They
// are in the records; what closes after the files is worth more.
const lastLines = 2 * time.Second

func (a *assembly) closeUserLogs(ctx context.Context) error {
	if a.userLogs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastLines)
	defer cancel()
	if err := a.userLogs.Close(ctx); err != nil {
		a.Log.Warn("log lines are not in the log files", "error", err)
	}
	return nil
}

func (a *assembly) logFilesStatus() *logFilesStatus {
	if a.userLogs == nil {
		return nil
	}
	return &logFilesStatus{Trouble: a.userLogs.Trouble(), Dropped: a.userLogs.Dropped()}
}
