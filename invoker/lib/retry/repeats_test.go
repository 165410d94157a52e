package retry

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestLimitRepeats: warnings of one text are bounded, by whichever logger they come. Other
// texts and information are not affected, and the next line after the flood has its size.
func TestLimitRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(LimitRepeats(slog.NewTextHandler(&text, nil)))
		for i := range 3000 {
			log.With("topic", i%7).Warn("reading failed", "error", "gone")
			log.Info("activation goes elsewhere")
		}
		log.Error("something else")
		count := func(what string) int { return strings.Count(text.String(), what) }
		check.Equal(t, count("reading failed"), logBurst)
		check.Equal(t, count("goes elsewhere"), 3000)
		check.Equal(t, count("something else"), 1)
		check.Equal(t, count("repeatsLeftOut"), 0)
		time.Sleep(LogPause)
		log.Warn("reading failed")
		log.Warn("reading failed")
		check.Equal(t, count("repeatsLeftOut=2900"), 1)
		check.Equal(t, count("reading failed"), logBurst+2)
	})
}
