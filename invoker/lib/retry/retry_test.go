package retry

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// An interruption is logged twice, however often is tried meanwhile.
func TestRetrierLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := New(slog.New(slog.NewTextHandler(&out, nil)), "reading")
		r.Succeeded() // nothing was wrong
		for round := range 2 {
			began := time.Now()
			for range 20 {
				check.That(check.Must(t), r.Wait(t.Context(), errors.New("away")), "gave up")
			}
			check.Equal(t, r.LastError(), "away", "last error")
			check.That(t, r.Since().Equal(began), "failing since %s, want %s", r.Since(), began)
			took := time.Since(began)
			least, most := 15*MaxPause/2, 20*MaxPause
			check.AtLeast(t, took, least, "20 tries took")
			check.AtMost(t, took, most, "20 tries took")
			r.Succeeded()
			check.Equal(t, r.LastError(), "")
			got := strings.Count(out.String(), "reading interrupted")
			check.Equal(t, got, round+1, "round %d: %d warnings:\n%s", round, got, out.String())
			got = strings.Count(out.String(), "reading resumed")
			check.Equal(t, got, round+1, "round %d: resumed %d times:\n%s", round, got, out.String())
		}
	})
}

func TestRetrierEndsWithItsContext(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	var out bytes.Buffer
	r := New(slog.New(slog.NewTextHandler(&out, nil)), "reading")
	check.That(t, !r.Wait(ctx, errors.New("away")), "waited after the end")
	check.AtMost(t, out.Len(), 0, "the end counts as a failure: %s", out.String())
	check.Equal(t, r.LastError(), "", "the end counts as a failure: %s", out.String())
	check.That(t, !Sleep(ctx, time.Hour), "slept for longer than its context lives")
}

// Pauses grow from the first to the longest, at least half of each is waited,
// and after a reset they begin anew.
func TestBackoffGrows(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 7 * time.Second}
	for range 2 {
		for _, whole := range []time.Duration{1, 2, 4, 7, 7} {
			whole *= time.Second
			got := b.Next()
			check.AtLeast(t, got, whole/2)
			check.AtMost(t, got, whole)
		}
		b.Reset()
	}
}

func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, fatal := errors.New("away"), errors.New("fatal")
		ended, end := context.WithCancel(t.Context())
		end()
		for _, c := range []struct {
			name    string
			ctx     context.Context
			answers []error
			want    error
		}{
			{"success", t.Context(), []error{nil}, nil},
			{"success after failures", t.Context(), []error{away, away, nil}, nil},
			{"permanent", t.Context(), []error{away, Permanent(fatal)}, fatal},
			{"ended, the last error", ended, []error{away}, away},
			{"ended, the context's error", ended, []error{away}, context.Canceled},
		} {
			tries := 0
			err := Do(c.ctx, Default(), func() error { tries++; return c.answers[tries-1] })
			check.ErrorIs(t, err, c.want, "%s: error", c.name)
			check.Equal(t, tries, len(c.answers), "%s", c.name)
		}
	})
}
