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
				if !r.Wait(t.Context(), errors.New("away")) {
					t.Fatal("gave up")
				}
			}
			if r.LastError() != "away" {
				t.Errorf("last error %q", r.LastError())
			}
			if !r.Since().Equal(began) {
				t.Errorf("failing since %s, want %s", r.Since(), began)
			}
			took := time.Since(began)
			if least, most := 15*MaxPause/2, 20*MaxPause; took < least || took > most {
				t.Errorf("20 tries took %s, want between %s and %s", took, least, most)
			}
			r.Succeeded()
			if r.LastError() != "" {
				t.Errorf("error %q after a success", r.LastError())
			}
			if got := strings.Count(out.String(), "reading interrupted"); got != round+1 {
				t.Errorf("round %d: %d warnings:\n%s", round, got, out.String())
			}
			if got := strings.Count(out.String(), "reading resumed"); got != round+1 {
				t.Errorf("round %d: resumed %d times:\n%s", round, got, out.String())
			}
		}
	})
}

func TestRetrierEndsWithItsContext(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	var out bytes.Buffer
	r := New(slog.New(slog.NewTextHandler(&out, nil)), "reading")
	if r.Wait(ctx, errors.New("away")) {
		t.Error("waited after the end")
	}
	if out.Len() > 0 || r.LastError() != "" {
		t.Errorf("the end counts as a failure: %s", out.String())
	}
	if Sleep(ctx, time.Hour) {
		t.Error("slept for longer than its context lives")
	}
}

// Pauses grow from the first to the longest, at least half of each is waited,
// and after a reset they begin anew.
func TestBackoffGrows(t *testing.T) {
	b := Backoff{Min: time.Second, Max: 7 * time.Second}
	for range 2 {
		for _, whole := range []time.Duration{1, 2, 4, 7, 7} {
			whole *= time.Second
			if got := b.Next(); got < whole/2 || got > whole {
				t.Errorf("a pause of %s, want %s to %s", got, whole/2, whole)
			}
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
			if !errors.Is(err, c.want) {
				t.Errorf("%s: error %v, want %v", c.name, err, c.want)
			}
			if tries != len(c.answers) {
				t.Errorf("%s: %d tries, want %d", c.name, tries, len(c.answers))
			}
		}
	})
}
