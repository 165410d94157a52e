package assembly

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// The next of two processes with one id waits until the previous one has ended and
// reports that at /ping: on the same host it waits for the lock, on another for the
// pings to end.
func TestNextProcessWaitsForThePrevious(t *testing.T) {
	for _, host := range []struct{ name, want string }{
		{"same", "another process on this host"}, {"other", "waiting for another process with the same id"},
	} {
		t.Run(host.name, func(t *testing.T) {
			bus, environ := deployment(t)
			pings := subscribe(t, bus)
			longSilence := func(o *Options) { o.silence = time.Minute }
			previous := start(t, environ, longSilence)
			<-previous.ready
			await(t, pings, `"isEnabled":true`)
			if host.name == "other" {
				environ = append(environ, "CONFIG_whisk_gpu_state="+t.TempDir())
			}
			next := start(t, environ, longSilence)
			awaitResponse(t, next.address+"/ping", http.StatusServiceUnavailable, host.want)
			select {
			case <-next.ready:
				t.Error("started beside the previous one")
			case err := <-next.ended:
				t.Fatalf("ended beside the previous one: %v", err)
			default:
			}
			previous.end(t)
			<-next.ready
			next.end(t)
		})
	}
}

// The next process reads which ping of a dead process on this host was the last,
// and need not wait for those pings to grow old.
func TestLastPingIsRemembered(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []struct {
		past, taken int64
	}{{0, 41}, {42, 42}, {43, 43}} {
		a := withState(config.State{Dir: dir})
		if err := a.awaitState(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.openPinged(); err != nil {
			t.Fatal(err)
		}
		if got := a.state.pinged.past; got != step.past {
			t.Errorf("remembers %d, want %d", got, step.past)
		}
		a.state.pinged.taken(step.taken)
		if err := a.state.close(); err != nil {
			t.Error(err)
		}
	}
	path := config.State{Dir: dir}.JournalDir("invoker7") + "/pinged"
	if err := os.WriteFile(path, []byte(strings.Repeat("\xff", 8)), 0o600); err != nil {
		t.Fatal(err)
	}
	a := withState(config.State{Dir: dir})
	if err := a.awaitState(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.openPinged(); err != nil || a.state.pinged.past != 0 {
		t.Errorf("damaged: %d %v", a.state.pinged.past, err)
	}
	if err := a.state.close(); err != nil {
		t.Error(err)
	}
}

// TestPingedCutAndFlippedAnywhere: however the offset of the last ping is damaged,
// what was written is read, or nothing.
func TestPingedCutAndFlippedAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pinged")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const last = 0x123456
	pinged{file: f}.taken(last)
	tracesOnly, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := readPinged(bytes.NewReader(tracesOnly)); got != last+1 {
		t.Fatalf("whole: %d", got)
	}
	bad := [][]byte{append(slices.Clone(tracesOnly), 0), binary.BigEndian.AppendUint64(nil, 1<<40)}
	for at := range tracesOnly {
		bad = append(bad, tracesOnly[:at])
		for bit := range 8 {
			flipped := slices.Clone(tracesOnly)
			flipped[at] ^= 1 << bit
			bad = append(bad, flipped)
		}
		torn := slices.Clone(tracesOnly) // a part of a later one
		copy(torn[:at], bytes.Repeat([]byte{0x7f}, at))
		if at > 0 {
			bad = append(bad, torn)
		}
	}
	for _, b := range bad {
		if got := readPinged(bytes.NewReader(b)); got != 0 {
			t.Errorf("%x is %d", b, got)
		}
	}
}
