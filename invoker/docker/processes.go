package docker

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/moby/moby/client"
)

// Processes tells the ids of a container's processes as the daemon's host has
// them, and the name space of processes that they are in; 0 where the host's ps
// cannot tell that. Who runs on that host sees both in /proc; this is for who runs
// in a container there.
func (e *Engine) Processes(ctx context.Context, name string) (pids []int, space uint64, err error) {
	ctx, cancel := limited(ctx, e.options.Timeouts.Inspect)
	defer cancel()
	top, err := e.api.ContainerTop(ctx, name, client.ContainerTopOptions{Arguments: []string{"-eo", "pid,pidns"}})
	if err != nil { // some ps know no name spaces
		top, err = e.api.ContainerTop(ctx, name, client.ContainerTopOptions{Arguments: []string{"-eo", "pid"}})
	}
	if err != nil {
		return nil, 0, fmt.Errorf("list processes of container %s: %w", name, err)
	}
	at, of := slices.Index(top.Titles, "PID"), slices.Index(top.Titles, "PIDNS")
	for _, row := range top.Processes {
		if at < 0 || at >= len(row) {
			continue
		}
		if pid, err := strconv.Atoi(row[at]); err == nil {
			pids = append(pids, pid)
		}
		if of >= 0 && of < len(row) && space == 0 {
			space, _ = strconv.ParseUint(row[of], 10, 64)
		}
	}
	return pids, space, nil
}
