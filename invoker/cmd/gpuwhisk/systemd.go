package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What systemd gives to a service of Type=notify with credentials, and how the
// service notifies it: sd_notify(3) and systemd.exec(5).

// service is the manager that this process runs under; the zero value is none.
type service struct{ socket string }

func serviceOf(environ []string) service {
	return service{lookup(environ, "NOTIFY_SOCKET")}
}

// notify sends a state to the manager. Without one, and where it does not listen,
// nothing happens.
func (s service) notify(state string) {
	if s.socket == "" {
		return
	}
	name := s.socket
	if strings.HasPrefix(name, "@") { // the abstract name space
		name = "\x00" + name[1:]
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = conn.Write([]byte(state))
}

// beat notifies the manager that all is well as long as it is.
func (s service) beat(ctx context.Context, every time.Duration, alive func(context.Context) error) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, every)
		err := alive(asking)
		cancel()
		if err == nil {
			s.notify("WATCHDOG=1")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// watchdog is how often the manager is notified that all is well: half of
// the time after which it takes the service for dead. Zero means never.
func watchdog(environ []string, pid int) time.Duration {
	if p := lookup(environ, "WATCHDOG_PID"); p != "" && p != strconv.Itoa(pid) {
		return 0
	}
	us, err := strconv.ParseInt(lookup(environ, "WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return 0
	}
	return time.Duration(us) * time.Microsecond / 2
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
