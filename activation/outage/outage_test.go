package outage

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

// An outage is told twice, however often it is tried meanwhile.
func TestOutageIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := New(slog.New(slog.NewTextHandler(&out, nil)), "reading")
		o.Over() // nothing was wrong
		for round := range 2 {
			began := time.Now()
			for range 20 {
				if !o.Failed(t.Context(), errors.New("away")) {
					t.Fatal("gave up")
				}
			}
			if o.Reason() != "away" {
				t.Errorf("reason %q", o.Reason())
			}
			took := time.Since(began)
			if least, most := 15*MaxPause/2, 20*MaxPause; took < least || took > most {
				t.Errorf("20 tries took %s, want between %s and %s", took, least, most)
			}
			o.Over()
			if o.Reason() != "" {
				t.Errorf("reason %q after it was over", o.Reason())
			}
			warned, resumed := strings.Count(out.String(), "reading interrupted"), strings.Count(out.String(), "reading resumed")
			if warned != round+1 || resumed != round+1 {
				t.Errorf("round %d: told %d times, resumed %d times:\n%s", round, warned, resumed, out.String())
			}
		}
	})
}

func TestOutageEndsWithItsOwner(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	var out bytes.Buffer
	o := New(slog.New(slog.NewTextHandler(&out, nil)), "reading")
	if o.Failed(ctx, errors.New("away")) || out.Len() > 0 || o.Reason() != "" {
		t.Errorf("an end counts as an outage: %s", out.String())
	}
	if Wait(ctx, time.Hour) {
		t.Error("waited for longer than its owner lives")
	}
}

// Pauses grow from the first to the longest, at least half of each is waited,
// and after a rest they begin anew.
func TestPaceGrows(t *testing.T) {
	p := Pace{Min: time.Second, Max: 7 * time.Second}
	for range 2 {
		for _, whole := range []time.Duration{1, 2, 4, 7, 7} {
			whole *= time.Second
			if got := p.Next(); got < whole/2 || got > whole {
				t.Errorf("a pause of %s, want %s to %s", got, whole/2, whole)
			}
		}
		p.Reset()
	}
}
