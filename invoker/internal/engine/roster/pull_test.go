package roster

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// TestPullProgress: a pull is listed with its progress while it runs, is logged every few
// seconds, and is gone after its end, good or bad.
func TestPullProgress(t *testing.T) {
	for _, failure := range []error{nil, errors.New("no such image")} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			var steps []string
			goOn := make(chan struct{})
			r := New(Options{
				Daemon: "containerd", Log: slog.New(slog.NewTextHandler(&log, nil)),
				Steps: func(step string, _ int) func(error) {
					return func(err error) { check.ErrorIs(t, err, failure); steps = append(steps, step) }
				},
				Pull: func(_ context.Context, _ string, p *Progress) error {
					p.Set(3<<20, 5<<20)
					<-goOn
					return failure
				},
			})
			began := time.Now()
			ended := make(chan error, 2)
			for range cap(ended) {
				go func() { ended <- r.Pull(t.Context(), "image:1") }()
			}
			<-time.After(12 * time.Second) // of the synctest clock: two lines of progress
			check.EqualSlices(t, r.Pulls(), []container.Pull{{Image: "image:1", Since: began, Bytes: 3 << 20, Total: 5 << 20}})
			close(goOn)
			for range cap(ended) {
				check.ErrorIs(t, <-ended, failure)
			}
			check.Equal(t, len(r.Pulls()), 0)
			check.EqualSlices(t, steps, []string{"invoker_containerd.pull"})
			r.Close()
			check.Equal(t, bytes.Count(log.Bytes(), []byte(`msg="pulling image" image=image:1 megabytes=3 of=5`)), 2)
			check.Equal(t, bytes.Contains(log.Bytes(), []byte(`msg="pulled image" image=image:1 seconds=12`)), failure == nil)
		})
	}
}
