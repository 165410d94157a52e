package runtimes_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// docker runs the docker command with its default daemon.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	check.NoError(t, err, "docker %s: %s", args[0], out)
	return strings.TrimSpace(string(out))
}

func needDocker(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").Run(); err != nil {
		peertest.Missing(t, fmt.Sprintf("no Docker daemon answers: %v", err))
	}
}

// TestImages builds the images from this machine's interpreters, and runs an action in a
// container of each with an invoker's limits.
func TestImages(t *testing.T) {
	needDocker(t)
	tag := "test-" + strconv.Itoa(os.Getpid())
	for _, d := range dialects {
		image := map[runtimes.Family]string{runtimes.Python: "python3", runtimes.NodeJS: "nodejs",
			runtimes.Native: "native"}[d.family]
		t.Run(image, func(t *testing.T) {
			if programs := findPrograms(); d.family == runtimes.NodeJS && programs.NodeJS == nil {
				t.Skip("no node on PATH to build an image from")
			}
			build := exec.Command("./build.sh", image)
			build.Env = append(os.Environ(), "TAG="+tag)
			out, err := build.CombinedOutput()
			check.NoError(t, err, "build: %s", out)
			name := "gpuwhisk/action-" + image + ":" + tag
			t.Cleanup(func() { docker(t, "rmi", "-f", name) })
			runInImage(t, d, name)
		})
	}
}

func runInImage(t *testing.T, d dialect, image string) {
	id := docker(t, "run", "-d", "--memory", "256m", "--memory-swap", "256m", "--pids-limit", "1024",
		"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "-e", "__OW_API_HOST=h", image)
	t.Cleanup(func() { docker(t, "rm", "-f", id) })
	addr := docker(t, "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", id) + ":8080"
	c := proxy.New(addr, 1)
	defer c.Close()
	limit := proxy.Limit{Max: 1 << 20, Truncation: 1 << 20}
	if x := c.Init(t.Context(), []byte(initBody(d.echo, "main", false, nil)), time.Minute, limit); !x.OK() {
		t.Fatalf("init: %v %v %d %s; its logs: %s", x.Failure, x.Err, x.Status, x.Body, docker(t, "logs", id))
	}
	x := c.Run(t.Context(), []byte(runBody(`{"k":"v"}`)), time.Minute, limit)
	check.Equal(t, string(proxy.RunOutcome(x, time.Minute, false).Result), `{"got":{"k":"v"}}`, "run: %v %v %s", x.Failure, x.Err, x.Body)
	logs := logsOf(t, id)
	check.Equal(t, strings.Count(logs, sentinel), 2)
	check.Contains(t, logs, "hello")
	check.Contains(t, logs, "oops")
}

// logsOf reads both streams of a container up to their sentinels. The daemon writes
// lines some time after the container did.
func logsOf(t *testing.T, id string) string {
	t.Helper()
	late := time.After(waitLimit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		logs := docker(t, "logs", id)
		if strings.Count(logs, sentinel) >= 2 {
			return logs
		}
		select {
		case <-tick.C:
		case <-late:
			return logs
		}
	}
}
