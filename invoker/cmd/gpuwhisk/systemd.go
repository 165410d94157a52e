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

// What systemd gives to a service of Type=notify with credentials, and how the
// service notifies it: sd_notify(3) and systemd.exec(5).

// notify sends a state to the service manager. Without one, and where it does not
// listen, nothing happens.
func notify(state string) { _, _ = daemon.SdNotify(false, state) }

// watchdogInterval is how often the manager is notified that all is well: half of
// the time after which it takes the service for dead. Zero means never.
func watchdogInterval() time.Duration {
	timeout, _ := daemon.SdWatchdogEnabled(false) // zero for what cannot be read
	return timeout / 2
}

// beat notifies the manager that all is well as long as it is.
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

// withCredentials adds the credentials of a folder, which systemd keeps for this
// service alone, or fills that one from: a file with the name of a variable has
// its value, without the newline at its end. So passwords need not be in an
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
