package devices

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// TestFallbacksSurvive: what is known of actions is known to the next process,
// until it is cleared.
func TestFallbacksSurvive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "invoker0", "fallbacks.json")
	f := OpenFallbacks(path, slog.New(slog.DiscardHandler))
	for _, c := range []struct {
		function, why string
		want          bool
	}{{"guest/f", "why", true}, {"guest/f", "another", false}, {"guest/g", "also", true}} {
		if got := f.Add(c.function, c.why, false); got != c.want {
			t.Fatalf("%s for %q is added: %t", c.function, c.why, got)
		}
	}
	f.Save()
	f = OpenFallbacks(path, slog.New(slog.DiscardHandler))
	if why, fell := f.Reason("guest/f"); !fell || why != "why" {
		t.Errorf("after a restart: %q, %t", why, fell)
	}
	if n := f.Clear("guest/h"); n != 0 {
		t.Errorf("cleared %d of what was not there", n)
	}
	if n := f.Clear("guest/f"); n != 1 {
		t.Errorf("cleared %d, want 1", n)
	}
	f = OpenFallbacks(path, slog.New(slog.DiscardHandler))
	if _, fell := f.Reason("guest/f"); fell || len(f.List()) != 1 {
		t.Errorf("after clearing one: %+v", f.List())
	}
	if n := f.Clear(""); n != 1 {
		t.Errorf("cleared %d, want 1", n)
	}
	if left := OpenFallbacks(path, slog.New(slog.DiscardHandler)).List(); len(left) > 0 {
		t.Errorf("clearing all left %v", left)
	}
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
		if got := f.Add(c.function, c.why, true); got != c.want {
			t.Fatalf("%s for %q is added: %t", c.function, c.why, got)
		}
	}
	f.Save()
	f = OpenFallbacks(path, slog.New(slog.DiscardHandler))
	if !f.Passed("guest/f") {
		t.Error("a run does not end the probation")
	}
	if f.Passed("guest/f") {
		t.Error("a second run ends the probation again")
	}
	if f.Failed("guest/f") {
		t.Error("a failure after the probation counts")
	}
	if _, fell := f.Reason("guest/f"); !fell {
		t.Error("after a run: forgotten")
	}
	if !f.Failed("guest/g") {
		t.Error("a failure on probation does not count")
	}
	if f.Add("guest/g", "failed", true) {
		t.Error("a weak sign counts after it failed on probation")
	}
	if f.Passed("guest/g") {
		t.Error("a run ends a probation that is over")
	}
	if _, fell := f.Reason("guest/g"); fell || !f.Add("guest/g", "moved", false) {
		t.Error("after it failed on probation: not moved again, or a strong sign does not count")
	}
	if f.Clear("guest/g"); !f.Add("guest/g", "failed", true) || !f.Add("guest/g", "moved", false) || f.Failed("guest/g") {
		t.Error("after clearing it a weak sign does not count, or a strong one does not end its probation")
	}
}

// TestFallbacksAreBounded: the oldest gives way, and a file of another user's
// is put aside.
func TestFallbacksAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fallbacks.json")
	if err := os.WriteFile(path, []byte("no list"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &safeBuffer{}
	f := OpenFallbacks(path, slog.New(slog.NewTextHandler(log, nil)))
	if _, err := os.Stat(path + ".bad"); err != nil || log.count("it is made again") != 1 {
		t.Errorf("a bad file: %v, %s", err, log.b.String())
	}
	for i := range maxFallbacks + 10 {
		f.Add(fmt.Sprintf("guest/f%05d", i), strings.Repeat("x", 10), i%2 == 0)
	}
	if n := len(f.List()); n != maxFallbacks {
		t.Errorf("%d are kept", n)
	}
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
	if unfit.Container != name || !strings.Contains(unfit.Unfit, "refused") || !strings.Contains(unfit.Unfit, "error 1") {
		t.Errorf("%+v", unfit)
	}
	if reported.Usage.Resident != mib {
		t.Errorf("its memory: %+v", reported.Usage)
	}
}

// TestFailureIsReported: a kernel that failed with nothing moved is a weak sign, also
// under the shim that counts.
func TestFailureIsReported(t *testing.T) {
	for _, word := range []string{"managed", "count"} {
		b := open(t, nil)
		g := b.guest(b.prepare(name, word), "FAKE_CUDA_FAIL=cuMemGetInfo_v2:0:999")
		g.Do("alloc %d", mib)
		b.awaitUsage(g.PID(), mib)
		b.Begin(name, gpu.Need{})
		b.End(b.limited(), name, gpu.Need{})
		h := b.await("a failure", func(h gpu.MemoryReport) bool { return h.Unfit != "" })
		if !h.Weak || h.Container != name || !strings.Contains(h.Unfit, "error 999") {
			t.Errorf("%s: %+v", word, h)
		}
	}
}

// FuzzFallbacks: what is in the file cannot harm.
func FuzzFallbacks(f *testing.F) {
	f.Add([]byte(`[{"action":"a","reason":"b","since":"2026-01-02T03:04:05Z"}]`))
	f.Add([]byte(`[{}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ReadFallbacks(data)
		if err != nil {
			return
		}
		for _, one := range list {
			if one.Action == "" {
				t.Errorf("an action without a name in %q", data)
			}
		}
	})
}
