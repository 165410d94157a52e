package docker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/logs"
)

func logRequest() container.LogRequest {
	return container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20, Now: time.Now(), Alone: true}
}

// readsFile tells whether the test may read the daemon's log files.
func (r *real) readsFile(id container.ID) bool {
	_, isFile := r.logSource(id).(*logs.File)
	return isFile
}

// The file and the API give the same lines, whatever is printed and however
// the reading ends.
func TestRealLogsFileAndAPIAgree(t *testing.T) {
	// The place where a deployment would mount the log files is empty: they
	// are found below the daemon's root all the same.
	r := startReal(t, func(o *Options) { o.LogDirs = []string{t.TempDir()} })
	h := r.create()
	if !r.readsFile(h.ID) {
		missing(t, "the log files of the Docker daemon cannot be read")
	}
	byFile := logs.NewTail(r.logSource(h.ID), logs.DefaultWaits())
	byAPI := logs.NewTail(&stream{api: r.api, id: string(h.ID), settle: 20 * time.Millisecond}, logs.DefaultWaits())
	defer byFile.Close()
	defer byAPI.Close()
	// Readings that end by a quiet moment depend on how fast the daemon passes
	// lines on; package logs holds them with a clock of its own.
	cases := []struct {
		name  string
		value map[string]any
		req   container.LogRequest
		lines int
	}{
		{"nothing", map[string]any{}, logRequest(), 0},
		{"both streams", map[string]any{"stdout": []string{"a\n", "b\n"}, "stderr": []string{"c\n"}}, logRequest(), 3},
		{"no line feed", map[string]any{"stdout": []string{"a"}, "stderr": []string{"b"}}, logRequest(), 2},
		{"bytes of all kinds", map[string]any{"stdout": []string{"<é>\t\"\\\x01\u2028 \r\n"}}, logRequest(), 1},
		{"long line", map[string]any{"stdout": []string{strings.Repeat("x", 40000) + "\n"}}, logRequest(), 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			mustRun(t, h.Addr, c.value)
			file := byFile.Collect(t.Context(), c.req)
			api := byAPI.Collect(t.Context(), c.req)
			file.Lines, api.Lines = withoutOurs(file.Lines), withoutOurs(api.Lines)
			if !slices.Equal(file.Lines, api.Lines) || file.Truncated != api.Truncated || file.Incomplete != api.Incomplete {
				t.Errorf("file: %d lines %.300q, %v, %v\n API: %d lines %.300q, %v, %v",
					len(file.Lines), file.Lines, file.Truncated, file.Incomplete,
					len(api.Lines), api.Lines, api.Truncated, api.Incomplete)
			}
			if c.lines >= 0 && len(file.Lines) != c.lines {
				t.Errorf("got %d lines %.300q, want %d", len(file.Lines), file.Lines, c.lines)
			}
		})
	}
}

// withoutOurs blanks the time of the lines that a collector added.
func withoutOurs(lines []string) []string {
	for i, line := range lines {
		if strings.Contains(line, "stderr: Logs were truncated") || strings.Contains(line, "stderr: The action did not") {
			lines[i] = line[30:]
		}
	}
	return lines
}

// The container lives on after its log went over the limit, and the next
// activation has its own lines.
func TestRealTruncatedLogKeepsTheContainer(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	mustRun(t, h.Addr, map[string]any{"stdout": []string{strings.Repeat("y", 99) + "\n"}, "repeat": 20000})
	got := r.Logs(t.Context(), h.ID, logRequest())
	if last := got.Lines[len(got.Lines)-1]; !got.Truncated || got.Incomplete || !strings.Contains(last, "exceeds the limit of 1048576 bytes.") {
		t.Errorf("truncated %v, incomplete %v, last line %q", got.Truncated, got.Incomplete, last)
	}
	mustRun(t, h.Addr, map[string]any{"stdout": []string{"b\n"}})
	got = r.Logs(t.Context(), h.ID, logRequest())
	if len(got.Lines) != 1 || got.Truncated || got.Incomplete {
		t.Errorf("next: got %+v", got)
	}
}

// A Remove ends a reading that waits for its sentinels.
func TestRealRemoveEndsLogs(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	mustRun(t, h.Addr, map[string]any{"quiet": true})
	began := time.Now()
	result := make(chan container.LogResult)
	go func() { result <- r.Logs(t.Context(), h.ID, logRequest()) }()
	if err := r.Remove(t.Context(), h.ID); err != nil {
		t.Fatal(err)
	}
	if got := <-result; !got.Incomplete {
		t.Errorf("got %+v", got)
	}
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
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := r.Remove(b.Context(), h.ID); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkRealPauseResume(b *testing.B) {
	r := startReal(b, nil)
	h := r.create()
	var resume time.Duration
	for b.Loop() {
		if err := r.Pause(b.Context(), h.ID); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := r.Resume(b.Context(), h.ID); err != nil {
			b.Fatal(err)
		}
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
			h := r.create()
			if way == "api" {
				r.find(h.ID).tail = logs.NewTail(&stream{api: r.api, id: string(h.ID)}, logs.DefaultWaits())
			}
			var took []time.Duration
			for b.Loop() {
				mustRun(b, h.Addr, map[string]any{"stdout": []string{"a\n"}})
				began := time.Now()
				if got := r.Logs(b.Context(), h.ID, logRequest()); len(got.Lines) != 1 {
					b.Fatalf("got %+v", got)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms/p50")
			b.ReportMetric(took[len(took)*95/100].Seconds()*1000, "ms/p95")
		})
	}
}
