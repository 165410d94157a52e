package assembly

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestRecordingIsBounded: a recording ends with a whole line where it is full, logs
// that once, and the one before it is kept.
func TestRecordingIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gpu.log")
	check.NoError(t, os.WriteFile(path, []byte("before\n"), 0o600))
	var message bytes.Buffer
	l, err := newRecording(path, 25, slog.New(slog.NewTextHandler(&message, nil)))
	check.NoError(t, err)
	var last error
	for range 5 {
		_, last = l.Write([]byte("ten bytes\n"))
	}
	if !errors.Is(last, errRecordingEnded) {
		t.Errorf("a full recording takes more: %v", last)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "ten bytes\nten bytes\n" {
		t.Errorf("%q", got)
	}
	if got, _ := os.ReadFile(path + ".old"); string(got) != "before\n" {
		t.Errorf("the one before: %q", got)
	}
	if n := strings.Count(message.String(), "whisk.gpu.record-size"); n != 1 {
		t.Errorf("logged %d times: %s", n, message.String())
	}
	_, err = newRecording(filepath.Join(path, "no"), 1, quiet)
	check.ErrorContains(t, err, "whisk.gpu.record")
}
