package docker

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/logs"
)

// Logs reads what a container printed since the last call for it.
func (e *Engine) Logs(ctx context.Context, id container.ID, req container.LogRequest) container.LogResult {
	k, tail := e.tail(id)
	if tail == nil {
		return logs.Unreadable()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	if tail.Remote() { // even the first look takes a while
		req.Wait()
	}
	return tail.Collect(ctx, req)
}

// tail gives the container's log from where the last reading ended.
func (e *Engine) tail(id container.ID) (*known, *logs.Tail) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.known[id]
	if k == nil || e.closed {
		return nil, nil
	}
	if k.tail == nil {
		k.tail = logs.NewTail(e.logSource(id), e.options.LogWaits)
	}
	return k, k.tail
}

// settleTime is long against the daemon's delay between a container's write
// and its log. Every reading of a container without sentinels waits so long.
const settleTime = 20 * time.Millisecond

// logSource prefers the daemon's file. It is there as soon as the container
// runs, so if it cannot be opened it will not be later either.
func (e *Engine) logSource(id container.ID) logs.Source {
	for _, dir := range e.options.LogDirs {
		path := filepath.Join(dir, string(id), string(id)+"-json.log")
		if file, err := os.Open(path); err == nil {
			_ = file.Close()
			return logs.NewFile(path)
		}
	}
	return &stream{api: e.api, id: string(id), settle: settleTime}
}

// closeTail ends the reading of logs. A collection under way has been told to
// end by the container's context.
func (k *known) closeTail() {
	k.cancel()
	if k.tail != nil {
		_ = k.tail.Close()
	}
}
