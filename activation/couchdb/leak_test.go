package couchdb

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestNoGoroutineRemains: after faults and a Close in the middle of requests, no goroutine
// of the store remains.
func TestNoGoroutineRemains(t *testing.T) {
	f := newFake(t)
	f.docs["whisks/guest%2Fa"] = action("a", "1-a", inlineExec("x"))
	cfg := f.config()
	spool, err := records.OpenSpool(records.SpoolConfig{Dir: t.TempDir(), Timeout: time.Minute})
	check.NoError(t, err)
	cfg.Records.Spool = spool
	s, err := Open(cfg, manifest(t))
	check.NoError(t, err)
	f.inject(hangUp, 500, halfBody, hang, hang, hang, hang)
	for i := range 20 {
		r := record(i, `{}`)
		check.NoError(t, s.PutDocument(t.Context(), records.Document{ID: r.DocumentID(), Body: r.Document(1)}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, _ = s.Action(ctx, "guest/a", "")
		cancel()
	}
	check.NoError(t, s.Close())
	check.NoError(t, spool.Close(), "close spool")
	f.Close()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := ours()
		if left == "" {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still running:\n%s", left)
		}
	}
}

// ours returns the stacks of goroutines of this package and the library, except the
// test's own.
func ours() string {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var left []string
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		if strings.Contains(stack, "testing.tRunner") || strings.Contains(stack, "testing.(*") {
			continue
		}
		if strings.Contains(stack, "activation/couchdb") || strings.Contains(stack, "activation/records") || strings.Contains(stack, "go-kivik") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
