package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestManagerIsNotified(t *testing.T) {
	at := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := serviceOf([]string{"NOTIFY_SOCKET=" + at})
	s.notify("READY=1")
	buf := make([]byte, 100)
	n, err := l.Read(buf)
	if err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("received %q, %v", buf[:n], err)
	}
	serviceOf(nil).notify("READY=1")                              // no manager
	service{filepath.Join(t.TempDir(), "gone")}.notify("READY=1") // no listener
}

// TestBeatTellsOnlyOfTheLiving: a dispatcher that does not answer is not
// reported as alive.
func TestWatchdogNeedsALiveDispatcher(t *testing.T) {
	at := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	asked := 0
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go serviceOf([]string{"NOTIFY_SOCKET=" + at}).beat(ctx, time.Second, func(context.Context) error {
			asked++
			if asked%2 == 0 {
				return errors.New("no answer")
			}
			return nil
		})
		time.Sleep(3500 * time.Millisecond)
		cancel()
		synctest.Wait()
	})
	service{at}.notify("the end") // after all other states
	received := 0
	_ = l.SetReadDeadline(time.Now().Add(time.Minute))
	for buf := make([]byte, 100); ; received++ {
		n, err := l.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if string(buf[:n]) == "the end" {
			break
		}
	}
	if asked != 4 || received != 2 {
		t.Errorf("asked %d times, received %d beats, want 4 and 2", asked, received)
	}
}

func TestWatchdog(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    time.Duration
	}{
		{nil, 0},
		{[]string{"WATCHDOG_USEC=60000000"}, 30 * time.Second},
		{[]string{"WATCHDOG_USEC=60000000", "WATCHDOG_PID=7"}, 30 * time.Second},
		{[]string{"WATCHDOG_USEC=60000000", "WATCHDOG_PID=8"}, 0},
		{[]string{"WATCHDOG_USEC=soon"}, 0},
		{[]string{"WATCHDOG_USEC=-1"}, 0},
	} {
		if got := watchdog(c.environ, 7); got != c.want {
			t.Errorf("%v: %v, want %v", c.environ, got, c.want)
		}
	}
}

func TestCredentialsReplaceVariables(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"CONFIG_whisk_couchdb_password": "secret\n", "other": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := withCredentials([]string{"CONFIG_whisk_couchdb_password=old"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	if last := got[len(got)-1]; last != "CONFIG_whisk_couchdb_password=secret" || slices.Contains(got, "other=x") {
		t.Errorf("environment %q", got)
	}
	if _, err := withCredentials(nil, dir+"/none"); err == nil {
		t.Error("a folder that is not there is no error")
	}
}
