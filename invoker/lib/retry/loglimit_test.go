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

// TestLogLimit: a flood is one line a minute, with how many it stands for.
func TestLogLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		var limit LogLimit
		for range 1000 {
			limit.Log(log, slog.LevelError, "damaged", "offset", 7)
		}
		time.Sleep(LogPause)
		for range 10 {
			limit.Log(log, slog.LevelError, "damaged", "offset", 8)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		check.Equal(check.Must(t), len(lines), 2)
		check.That(check.Must(t), strings.HasSuffix(lines[0], "level=ERROR msg=damaged offset=7 count=1"), "got %q", lines)
		check.That(t, strings.HasSuffix(lines[1], "offset=8 count=1000"), "got %q", lines)
	})
}
