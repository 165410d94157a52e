package assembly

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// victimEnvironment names the variable with the environment of a victim, one setting in a
// line.
const victimEnvironment = "GPUWHISK_SCHEDULING_VICTIM"

// victim is an invoker in its own process. Each run prints a line and never ends.
type victim struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// startVictim starts a victim. It returns when schedulers see that the victim is up.
func (f *scheduling) startVictim() victim {
	f.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSchedulerModeSurvivesAKill$")
	cmd.Env = append(os.Environ(), victimEnvironment+"="+strings.Join(f.environ, "\n"))
	out, err := cmd.StdoutPipe()
	check.NoError(f, err)
	check.NoError(f, cmd.Start())
	f.until("the invoker is up", func() bool { return f.health().Status == activation.Up })
	return victim{f, cmd, bufio.NewScanner(out)}
}

// awaitRuns blocks until the given number of runs have begun.
func (v victim) awaitRuns(n int) {
	for runs := 0; runs < n && v.lines.Scan(); {
		if strings.HasPrefix(v.lines.Text(), "runs") {
			runs++
		}
	}
}

// kill kills the process and waits for its end.
func (v victim) kill() {
	v.t.Helper()
	check.NoError(v.t, v.cmd.Process.Kill())
	_ = v.cmd.Wait()
}

// TestSchedulerModeSurvivesAKill: no fetched activation is lost, whether it ran or not, and
// none has two records.
func TestSchedulerModeSurvivesAKill(t *testing.T) {
	if environ := os.Getenv(victimEnvironment); environ != "" {
		beKilled(t, strings.Split(environ, "\n"))
	}
	f := newScheduling(t)
	f.scheduler.SetLimit("guest", 3)
	killed := f.startVictim()
	of := f.function("hello", "1-aa", "0.0.1", `{"key":"rerun","value":true}`, 256)
	var all []activation.ID
	for range 5 {
		all = append(all, f.invoke(of))
	}
	killed.awaitRuns(3)
	killed.kill()
	r := f.start()
	for _, id := range all {
		f.succeeded(id)
	}
	if keys := f.keys("invokers/"); len(keys) != 1 {
		t.Errorf("keys %v", keys)
	}
	r.end(t)
}

// beKilled runs until the process is killed.
func beKilled(t *testing.T, environ []string) {
	cfg, err := config.Load(config.Input{Environ: environ, Args: []string{"--id", "0"}})
	check.NoError(t, err)
	engine := &proxies{t: t, all: map[container.ID]*proxied{}, died: make(chan container.ID)}
	engine.run = func() {
		fmt.Println("runs")
		select {}
	}
	t.Fatal(Run(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Host: "127.0.0.1", Engine: engine}))
}

// TestSchedulerModeFollowsTheLeader: a scheduler's death costs no container.
func TestSchedulerModeFollowsTheLeader(t *testing.T) {
	f := newScheduling(t, "CONFIG_whisk_containerProxy_timeouts_pauseGrace=1 minute")
	r := f.start()
	f.scheduler.Kill()
	first := f.config
	first.ID, first.Lease = "1", time.Second
	var err error
	if f.scheduler, err = fakescheduler.New(first); err != nil {
		t.Fatal(err)
	}
	hello := f.function("hello", "1-aa", "0.0.1", "", 256)
	f.answered(f.invoke(hello))
	before := f.keys("namespace/")
	f.scheduler.Kill()
	f.until("the leader's key is gone", func() bool { return len(f.keys("queue/")) == 0 })
	first.ID = "2"
	if f.scheduler, err = fakescheduler.New(first); err != nil {
		t.Fatal(err)
	}
	f.answered(f.invoke(hello))
	// The new scheduler may order one more container before it hears of the existing one.
	check.Equal(t, f.engine.counts().removed, 0)
	after := f.keys("namespace/")
	for _, key := range before {
		check.Includes(t, after, key)
	}
	r.end(t)
}
