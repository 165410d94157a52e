package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// The protocol between systemd and a service of Type=notify with credentials:
// sd_notify(3) and systemd.exec(5).

// notify sends a state to the service manager. It is a no-op if there is no manager or
// it does not listen.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// watchdogInterval returns the time between keep-alive messages to the manager: half of
// the manager's timeout. Zero means that no messages are needed.
func watchdogInterval() time.Duration {
	timeout, _ := daemon.SdWatchdogEnabled(false) // zero if unreadable
	return timeout / 2
}

// beat sends a keep-alive message at each interval, as long as alive returns no error.
func beat(ctx context.Context, every time.Duration, alive func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, every)
		err := alive(asking)
		cancel()
		if err == nil {
			notify(daemon.SdNotifyWatchdog)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func lookup(environ []string, name string) string {
	value := ""
	for _, v := range environ {
		if found, ok := strings.CutPrefix(v, name+"="); ok {
			value = found
		}
	}
	return value
}

// withCredentials adds the credentials in a directory to the environment: a file with
// the name of a variable holds its value, with an optional newline at its end. systemd
// keeps or fills such a directory for this service alone, so passwords need not be in an
// environment.
func withCredentials(environ []string, dir string) ([]string, error) {
	if dir == "" {
		return environ, nil
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	environ = slices.Clone(environ)
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), "CONFIG_") || f.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, fmt.Errorf("read credential %s: %w", f.Name(), err)
		}
		environ = append(environ, f.Name()+"="+strings.TrimRight(string(text), "\r\n"))
	}
	return environ, nil
}
