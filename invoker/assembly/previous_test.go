package assembly

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// running is an invoker that a test started.
type running struct {
	address string
	ready   chan struct{}
	ended   chan error
	end     context.CancelFunc
}

func start(t *testing.T, environ []string) running { return startWith(t, environ, time.Minute) }

func startWith(t *testing.T, environ []string, lull time.Duration) running {
	t.Helper()
	cfg, err := config.Load(config.Input{Environ: environ, Args: []string{"--id", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	r := running{ready: make(chan struct{}), ended: make(chan error, 1)}
	var ctx context.Context
	ctx, r.end = context.WithCancel(t.Context())
	t.Cleanup(r.end)
	addr := make(chan string, 1)
	go func() {
		r.ended <- Run(ctx, Options{
			Config: cfg, Log: slog.New(slog.DiscardHandler), Host: "127.0.0.1", Engine: idleEngine{}, silence: lull,
			Listening: func(a string) { addr <- a }, Ready: func() { close(r.ready) },
		})
	}()
	r.address = "http://" + <-addr
	return r
}

// The next of two processes with one id waits until the previous one has ended and
// reports that at /ping: on the same host it waits for the lock, on another for the
// pings to end.
func TestNextProcessWaitsForThePrevious(t *testing.T) {
	for _, host := range []struct{ name, want string }{
		{"same", "another process on this host"}, {"other", "waiting for another process with the same id"},
	} {
		t.Run(host.name, func(t *testing.T) {
			bus, environ := deployment(t)
			pings := make(chan []byte, 1024)
			subscribed, received := make(chan struct{}), make(chan struct{})
			hearing, stop := context.WithCancel(t.Context())
			go func() {
				defer close(received)
				_ = bus.Consume(hearing, "health", func() { close(subscribed) }, func(m []byte) { pings <- m })
			}()
			defer func() { stop(); <-received }()
			<-subscribed
			previous := start(t, environ)
			<-previous.ready
			await(t, pings, `"isEnabled":true`)
			if host.name == "other" {
				environ = append(environ, "CONFIG_whisk_gpu_state="+t.TempDir())
			}
			next := start(t, environ)
			awaitResponse(t, next.address+"/ping", http.StatusServiceUnavailable, host.want)
			select {
			case <-next.ready:
				t.Error("started beside the previous one")
			case err := <-next.ended:
				t.Fatalf("ended beside the previous one: %v", err)
			default:
			}
			previous.end()
			if err := <-previous.ended; err != nil {
				t.Error(err)
			}
			<-next.ready
			next.end()
			if err := <-next.ended; err != nil {
				t.Error(err)
			}
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

func port(t *testing.T, addr string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
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
