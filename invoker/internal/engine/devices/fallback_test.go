package devices

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestFallbacksSurvive: knowledge of actions is passed to the next process,
// until it is cleared.
func TestFallbacksSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "invoker0", "fallbacks.json")
	f := OpenFallbacks(path, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		function, why string
		want          bool
	}{{"guest/f", "why", true}, {"guest/f", "another", false}, {"guest/g", "also", true}} {
		check.Equal(check.Must(t), f.Add(c.function, c.why, false), c.want, "%s for %q is added", c.function, c.why)
	}
	f.Save()
	f = OpenFallbacks(path, slog.New(slog.DiscardHandler))
	why, fell := f.Reason("guest/f")
	check.That(check.Must(t), fell, "after a restart: %q, %t", why, fell)
	check.Equal(t, why, "why", "after a restart")
	check.Equal(t, f.Clear("guest/h"), 0)
	check.Equal(t, f.Clear("guest/f"), 1)
	f = OpenFallbacks(path, slog.New(slog.DiscardHandler))
	_, fell = f.Reason("guest/f")
	check.That(t, !fell, "after clearing one: %+v", f.List())
	check.Equal(t, len(f.List()), 1, "after clearing one")
	check.Equal(t, f.Clear(""), 1)
	check.Equal(t, len(OpenFallbacks(path, slog.New(slog.DiscardHandler)).List()), 0, "clearing all left")
}

// TestProbation: an action on probation stays if it runs while its memory is only
// counted, and is moved again if it fails then, too.
func TestProbation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fallbacks.json")
	f := OpenFallbacks(path, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		function, why string
		want          bool
	}{{"guest/f", "failed", true}, {"guest/f", "failed", false}, {"guest/g", "failed", true}} {
		check.Equal(check.Must(t), f.Add(c.function, c.why, true), c.want, "%s for %q is added", c.function, c.why)
	}
	f.Save()
	f = OpenFallbacks(path, slog.New(slog.DiscardHandler))
	check.That(t, f.Passed("guest/f"), "a run does not end the probation")
	check.That(t, !f.Passed("guest/f"), "a second run ends the probation again")
	check.That(t, !f.Failed("guest/f"), "a failure after the probation counts")
	_, fell := f.Reason("guest/f")
	check.That(t, fell, "after a run: forgotten")
	check.That(t, f.Failed("guest/g"), "a failure on probation does not count")
	check.That(t, !f.Add("guest/g", "failed", true), "a weak sign counts after it failed on probation")
	check.That(t, !f.Passed("guest/g"), "a run ends a probation that is over")
	_, fell = f.Reason("guest/g")
	check.That(t, !fell, "after it failed on probation: not moved again, or a strong sign does not count")
	check.That(t, f.Add("guest/g", "moved", false), "after it failed on probation: not moved again, or a strong sign does not count")
	f.Clear("guest/g")
	check.That(t, f.Add("guest/g", "failed", true), "after clearing it a weak sign does not count")
	check.That(t, f.Add("guest/g", "moved", false), "after clearing it a strong sign does not count")
	check.That(t, !f.Failed("guest/g"), "a strong sign does not end its probation")
}

// TestFallbacksAreBounded: the oldest gives way, and a file of another user's
// is put aside.
func TestFallbacksAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fallbacks.json")
	check.NoError(t, os.WriteFile(path, []byte("no list"), 0o600))
	log := &safeBuffer{}
	f := OpenFallbacks(path, slog.New(slog.NewTextHandler(log, nil)))
	_, err := os.Stat(path + ".bad")
	check.NoError(t, err, "a bad file, %s", log.b.String())
	check.Equal(t, log.count("it is made again"), 1, "a bad file: %v, %s", err, log.b.String())
	for i := range maxFallbacks + 10 {
		f.Add(fmt.Sprintf("guest/f%05d", i), strings.Repeat("x", 10), i%2 == 0)
	}
	check.Equal(t, len(f.List()), maxFallbacks)
}

// TestUnfitIsReported: a program whose driver refuses managed memory is reported,
// under the shim as managed alone.
func TestUnfitIsReported(t *testing.T) {
	b := open(t, nil)
	g := b.guest(b.prepare(name, "managed"), "FAKE_CUDA_FAIL=cuMemAllocManaged:0:1")
	g.Do("alloc %d", mib)
	var unfit, reported gpu.MemoryReport // in either order: each is reported by a thread of its own
	b.await("a refusal, and its memory", func(h gpu.MemoryReport) bool {
		switch {
		case h.Unfit != "":
			unfit = h
		case h.PID == g.PID() && h.Usage.Allocated == mib:
			reported = h
		}
		return unfit.Unfit != "" && reported.PID != 0
	})
	check.Equal(t, unfit.Container, name)
	check.Contains(t, unfit.Unfit, "refused")
	check.Contains(t, unfit.Unfit, "error 1")
	check.Equal(t, reported.Usage.Resident, mib, "its memory")
}

// TestFailureIsReported: a kernel that failed with nothing moved is a weak sign, also
// under the shim that counts.
func TestFailureIsReported(t *testing.T) {
	for _, word := range []string{"managed", "count"} {
		b := open(t, nil)
		g := b.guest(b.prepare(name, word), "FAKE_CUDA_FAIL=cuMemGetInfo_v2:0:999")
		g.Do("alloc %d", mib)
		b.awaitUsage(g.PID(), mib)
		b.Begin(name, gpu.MemoryRequest{})
		b.End(b.limited(), name, gpu.MemoryRequest{})
		h := b.await("a failure", func(h gpu.MemoryReport) bool { return h.Unfit != "" })
		check.That(check.Must(t), h.Weak, "%s: %+v", word, h)
		check.Equal(t, h.Container, name, "%s", word)
		check.Contains(t, h.Unfit, "error 999", "%s", word)
	}
}

// FuzzFallbacks: no contents of the file do harm.
func FuzzFallbacks(f *testing.F) {
	f.Add([]byte(`[{"action":"a","reason":"b","since":"2026-01-02T03:04:05Z"}]`))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ReadFallbacks(data)
		if err != nil {
			return
		}
		for _, one := range list {
			check.That(t, one.Action != "", "an action without a name in %q", data)
		}
	})
}
