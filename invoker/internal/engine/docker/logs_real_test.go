package docker

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

func logRequest() container.LogRequest {
	return container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20, Now: time.Now(), Alone: true}
}

func (r *real) log(id container.ID) logs.Source {
	r.t.Helper()
	source, err := r.openLog(id)
	check.NoError(r.t, err)
	return source
}

// readsFile reports whether the test may read the daemon's log files.
func (r *real) readsFile(id container.ID) bool {
	_, isFile := r.log(id).(*logs.File)
	return isFile
}

// The file gives the lines that were printed, whatever is printed and however
// the reading ends; the API gives the same.
func TestRealLogsFileAndAPIAgree(t *testing.T) {
	// The place where a deployment would mount the log files is empty: they
	// are found below the daemon's root all the same.
	r := startReal(t, func(o *Options) { o.LogDirs = []string{t.TempDir()} })
	h := r.create()
	if !r.readsFile(h.ID) {
		peertest.Missing(t, "the log files of the Docker daemon cannot be read")
	}
	byFile := logs.NewTail(r.log(h.ID), enginetest.Waits())
	byAPI := logs.NewTail(&stream{api: r.api, id: string(h.ID), settle: 20 * time.Millisecond}, enginetest.Waits())
	defer byFile.Close()
	defer byAPI.Close()
	failed := container.LogRequest{LimitBytes: 1 << 20, Failed: true}
	cases := []struct {
		name  string
		value map[string]any
		req   container.LogRequest
		raw   int // lines in the file, sentinels and pieces of 16 KiB included
		lines int
		api   bool // false: what is there when it is asked is chance
	}{
		{"nothing", map[string]any{}, logRequest(), 2, 0, true},
		{"both streams", map[string]any{"stdout": []string{"a\n", "b\n"}, "stderr": []string{"c\n"}}, logRequest(), 5, 3, true},
		{"no line feed", map[string]any{"stdout": []string{"a"}, "stderr": []string{"b"}}, logRequest(), 2, 2, true},
		{"bytes of all kinds", map[string]any{"stdout": []string{"<é>\t\"\\\x01\u2028 \r\n"}}, logRequest(), 3, 1, true},
		{"long line", map[string]any{"stdout": []string{strings.Repeat("x", 40000) + "\n"}}, logRequest(), 5, 3, true},
		{"sentinel across the pieces", map[string]any{"stdout": []string{strings.Repeat("x", 16384-20)}}, logRequest(), 3, 1, false},
		{"forged sentinels", map[string]any{"stdout": []string{"a\n" + logs.Sentinel + "\nb\n"}, "stderr": []string{logs.Sentinel + "\nc\n"}}, logRequest(), 7, 3, false},
		{"flood", map[string]any{"stdout": []string{strings.Repeat("y", 99) + "\n"}, "repeat": 20000}, logRequest(), 20002, -1, false},
		{"after the flood", map[string]any{"stdout": []string{"a\n"}}, logRequest(), 3, 1, false},
		{"not waiting", map[string]any{"stdout": []string{"a\n"}, "quiet": true}, failed, 1, 2, false},
		{"not waiting, nothing new", map[string]any{"quiet": true}, failed, 0, 1, false},
		{"waiting again", map[string]any{"stdout": []string{"z\n"}}, logRequest(), 3, 1, false},
	}
	path, written := r.logPath(h.ID), 0
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			enginetest.MustCall(t, h.Addr, c.value)
			written += c.raw
			// How fast the daemon passes lines on is chance; what a reading
			// makes of them when they are there is not.
			until(t, "the daemon has written it", func() bool { return linesOf(t, path) >= written })
			check.Equal(t, linesOf(t, path), written, "lines in the file")
			file := byFile.Collect(t.Context(), c.req)
			if c.lines >= 0 && len(file.Lines) != c.lines {
				t.Errorf("got %d lines %.300q, want %d", len(file.Lines), file.Lines, c.lines)
			}
			flood := c.name == "flood"
			check.That(t, !file.Incomplete, "%d lines, truncated %v, incomplete %v", len(file.Lines), file.Truncated, file.Incomplete)
			check.Equal(t, file.Truncated, flood)
			if flood && len(file.Lines) < 5000 {
				t.Errorf("%d lines, truncated %v, incomplete %v", len(file.Lines), file.Truncated, file.Incomplete)
			}
			if !c.api {
				return
			}
			api := byAPI.Collect(t.Context(), c.req)
			check.EqualSlices(t, file.Lines, api.Lines, "file: %d lines %.300q, %v, %v\n API: %d lines %.300q, %v, %v", len(file.Lines), file.Lines, file.Truncated, file.Incomplete, len(api.Lines), api.Lines, api.Truncated, api.Incomplete)
			check.Equal(t, file.Truncated, api.Truncated, "file: %d lines %.300q, %v, %v\n API: %d lines %.300q, %v, %v", len(file.Lines), file.Lines, file.Truncated, file.Incomplete, len(api.Lines), api.Lines, api.Truncated, api.Incomplete)
			check.Equal(t, file.Incomplete, api.Incomplete, "file: %d lines %.300q, %v, %v\n API: %d lines %.300q, %v, %v", len(file.Lines), file.Lines, file.Truncated, file.Incomplete, len(api.Lines), api.Lines, api.Truncated, api.Incomplete)
		})
	}
}

// logPath is where the daemon keeps a container's log.
func (r *real) logPath(id container.ID) string {
	r.t.Helper()
	result, err := r.api.ContainerInspect(r.t.Context(), string(id), client.ContainerInspectOptions{})
	check.NoError(r.t, err)
	return result.Container.LogPath
}

func linesOf(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	check.NoError(t, err)
	return bytes.Count(text, []byte("\n"))
}

// The container lives on after its log went over the limit, and the next
// activation has its own lines.
func TestRealTruncatedLogKeepsTheContainer(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	enginetest.MustCall(t, h.Addr, map[string]any{"stdout": []string{strings.Repeat("y", 99) + "\n"}, "repeat": 20000})
	got := r.Logs(t.Context(), h.ID, logRequest())
	check.That(check.Must(t), got.Truncated, "truncated %v, incomplete %v, last line %q", got.Truncated, got.Incomplete, got.Lines[len(got.Lines)-1])
	check.That(t, !got.Incomplete, "truncated %v, incomplete %v, last line %q", got.Truncated, got.Incomplete, got.Lines[len(got.Lines)-1])
	check.Contains(t, got.Lines[len(got.Lines)-1], "exceeds the limit of 1048576 bytes.")
	enginetest.MustCall(t, h.Addr, map[string]any{"stdout": []string{"b\n"}})
	got = r.Logs(t.Context(), h.ID, logRequest())
	check.Equal(t, len(got.Lines), 1)
	check.That(t, !got.Truncated, "next: got %+v", got)
	check.That(t, !got.Incomplete, "next: got %+v", got)
}

// A Remove ends a reading that waits for its sentinels.
func TestRealRemoveEndsLogs(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	enginetest.MustCall(t, h.Addr, map[string]any{"quiet": true})
	began := time.Now()
	result := make(chan container.LogResult)
	go func() { result <- r.Logs(t.Context(), h.ID, logRequest()) }()
	check.NoError(t, r.Remove(t.Context(), h.ID))
	got := check.Receive(t, result)
	check.That(t, got.Incomplete, "got %+v", got)
	t.Logf("took %v", time.Since(began))
}

func BenchmarkRealCreate(b *testing.B) {
	r := startReal(b, nil)
	spec := r.spec()
	n := 0
	for b.Loop() {
		n++
		spec.Name = fmt.Sprintf("%sbench_%d", r.prefix, n)
		h, err := r.Create(b.Context(), spec)
		check.NoError(b, err)
		b.StopTimer()
		check.NoError(b, r.Remove(b.Context(), h.ID))
		b.StartTimer()
	}
}

func BenchmarkRealPauseResume(b *testing.B) {
	r := startReal(b, nil)
	h := r.create()
	var resume time.Duration
	for b.Loop() {
		check.NoError(b, r.Pause(b.Context(), h.ID))
		began := time.Now()
		check.NoError(b, r.Resume(b.Context(), h.ID))
		resume += time.Since(began)
	}
	b.ReportMetric(resume.Seconds()*1000/float64(b.N), "ms/resume")
}

// From the answer of a warm run to its collected logs.
func BenchmarkRealLogs(b *testing.B) {
	r := startReal(b, nil)
	for _, way := range []string{"file", "api"} {
		b.Run(way, func(b *testing.B) {
			r.t = b
			if way == "api" {
				r.options.LogDirs = nil
			}
			h := r.create()
			var took []time.Duration
			for b.Loop() {
				enginetest.MustCall(b, h.Addr, map[string]any{"stdout": []string{"a\n"}})
				began := time.Now()
				check.Equal(check.Must(b), len(r.Logs(b.Context(), h.ID, logRequest()).Lines), 1)
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms/p50")
			b.ReportMetric(took[len(took)*95/100].Seconds()*1000, "ms/p95")
		})
	}
}

// TestRealLogIsRotated: the log of a warm container takes three files at most, and each
// activation still gets its own lines, read as files or through the API.
func TestRealLogIsRotated(t *testing.T) {
	const limit = 2 << 20
	r := startReal(t, func(o *Options) { o.MaxLogBytes = limit })
	h := r.create()
	path := r.logPath(h.ID)
	short := enginetest.Waits() // the daemon may lose the end of a log that it rotates and sends
	short.Behind = time.Second
	tails := map[string]*logs.Tail{"api": logs.NewTail(&stream{api: r.api, id: string(h.ID), settle: settleTime}, short)}
	if r.readsFile(h.ID) {
		tails["file"] = logs.NewTail(r.log(h.ID), enginetest.Waits())
	}
	for range 3 {
		enginetest.MustCall(t, h.Addr, map[string]any{"stdout": []string{strings.Repeat("y", 99) + "\n"}, "repeat": 40_000})
		for name, tail := range tails {
			got := tail.Collect(t.Context(), logRequest())
			check.That(t, got.Truncated, "by %s: %d lines", name, len(got.Lines))
		}
		enginetest.MustCall(t, h.Addr, map[string]any{"stdout": []string{"after the flood\n"}})
		for name, tail := range tails {
			got := tail.Collect(t.Context(), logRequest())
			check.Equal(check.Must(t), len(got.Lines), 1, name)
			check.That(t, strings.HasSuffix(got.Lines[0], ": after the flood"), "by %s: %q", name, got.Lines)
			check.That(t, !got.Incomplete, name)
		}
	}
	var size int64
	for _, name := range []string{path, path + ".1", path + ".2", path + ".3"} {
		if info, err := os.Stat(name); err == nil {
			size += info.Size()
		}
	}
	check.AtMost(t, size, logs.Files*limit)
	for _, tail := range tails {
		check.NoError(t, tail.Close())
	}
}
