package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestWatchdogNeedsALiveDispatcher: a dispatcher that does not answer is not reported as
// alive. Without a manager that listens, states are dropped.
func TestWatchdogNeedsALiveDispatcher(t *testing.T) {
	at := filepath.Join(t.TempDir(), "notify")
	notify("READY=1")
	t.Setenv("NOTIFY_SOCKET", at)
	notify("READY=1")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	check.NoError(t, err)
	defer l.Close()
	asked := 0
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go beat(ctx, time.Second, func(context.Context) error {
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
	notify("STOPPING=1") // arrives after all other states
	_ = l.SetReadDeadline(time.Now().Add(time.Minute))
	received := ""
	for buf := make([]byte, 100); !strings.HasSuffix(received, "STOPPING=1"); {
		n, err := l.Read(buf)
		check.NoError(t, err)
		received += " " + string(buf[:n])
	}
	check.Equal(t, asked, 4)
	check.Equal(t, received, " WATCHDOG=1 WATCHDOG=1 STOPPING=1")
}

func TestWatchdogInterval(t *testing.T) {
	for _, c := range []struct {
		timeout, pid string
		want         time.Duration
	}{
		{"", "", 0}, {"60000000", "", 30 * time.Second}, {"60000000", fmt.Sprint(os.Getpid()), 30 * time.Second}, {"60000000", "1", 0},
		{"soon", "", 0}, {"-1", "", 0},
	} {
		t.Setenv("WATCHDOG_USEC", c.timeout)
		t.Setenv("WATCHDOG_PID", c.pid)
		if got := watchdogInterval(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestCredentialsReplaceVariables(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"CONFIG_whisk_couchdb_password": "secret\n", "other": "x"} {
		check.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	got, err := withCredentials([]string{"CONFIG_whisk_couchdb_password=old"}, dir)
	check.NoError(t, err)
	check.Equal(t, got[len(got)-1], "CONFIG_whisk_couchdb_password=secret")
	check.That(t, !slices.Contains(got, "other=x"), "environment %q", got)
	if _, err := withCredentials(nil, dir+"/none"); err == nil {
		t.Error("no error for a missing directory")
	}
}
