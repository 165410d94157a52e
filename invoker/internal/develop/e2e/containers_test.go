package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
)

// withContainerd adds containerd to the parts if GPUWHISK_ENGINE selects it. Docker still
// builds the images.
func withContainerd(t testing.TB, w parts) parts {
	t.Helper()
	if os.Getenv("GPUWHISK_ENGINE") == "containerd" {
		w.containerd = peertest.Variable(t, "GPUWHISK_TEST_CONTAINERD", "containerd.sh")
		for _, name := range []string{"nodejs", "python3", "native"} {
			w.offer(t, "gpuwhisk/action-"+name+":"+w.images)
		}
	}
	return w
}

// needDockerEngine skips a test that is about Docker itself, if actions run on containerd.
func needDockerEngine(t testing.TB) {
	t.Helper()
	if os.Getenv("GPUWHISK_ENGINE") == "containerd" {
		t.Skip("this test is about Docker")
	}
}

// bridge is the bridge of this process's action containers. The invokers of all tests share
// it, as they would on one host.
var bridge = "gwe" + strconv.Itoa(os.Getpid())

func bridgeDir() string { return filepath.Join(os.TempDir(), bridge) }

// containerdOptions are the parts of the engine's options that tests choose.
func containerdOptions(socket string) containerd.Options {
	o := containerd.DefaultOptions()
	o.Socket, o.Bridge = socket, bridge
	o.StateDir, o.RunDir = filepath.Join(bridgeDir(), "state"), filepath.Join(bridgeDir(), "run")
	return o
}

// forgetNetwork removes the bridge when all tests have ended.
var forgetNetwork = sync.OnceFunc(func() {
	peertest.AtExit(func() error {
		if err := containerd.RemoveNetwork(containerdOptions("")); err != nil {
			return err
		}
		return os.RemoveAll(bridgeDir())
	})
})

// engineSettings are the settings of an invoker that runs actions on containerd.
func (w parts) engineSettings() map[string]string {
	if w.containerd == "" {
		return nil
	}
	forgetNetwork()
	o := containerdOptions(w.containerd)
	return map[string]string{
		"CONFIG_whisk_containerEngine":         "containerd",
		"CONFIG_whisk_gpu_containerd_socket":   o.Socket,
		"CONFIG_whisk_gpu_containerd_bridge":   o.Bridge,
		"CONFIG_whisk_gpu_containerd_stateDir": o.StateDir,
		"CONFIG_whisk_gpu_containerd_runDir":   o.RunDir,
	}
}

// offered holds the images that were copied to containerd.
var offered sync.Map

// offer copies an image from Docker to the engine that runs the actions.
func (w parts) offer(t testing.TB, image string) {
	t.Helper()
	if w.containerd == "" {
		return
	}
	copied, _ := offered.LoadOrStore(image, sync.OnceValue(func() error {
		out, err := exec.Command("bash", "-c", `set -o pipefail; docker save "$1" | ctr -a "$2" -n "$3" images import -`,
			"offer", image, w.realSocket(), containerd.Namespace).CombinedOutput()
		if err != nil {
			return fmt.Errorf("copy image %s to containerd: %w: %s", image, err, out)
		}
		return nil
	}))
	check.NoError(t, copied.(func() error)())
}

// realSocket is containerd's own socket, also for an invoker that has a proxy before it.
func (w parts) realSocket() string { return os.Getenv("GPUWHISK_TEST_CONTAINERD") }

func (w parts) ctr(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("ctr", append([]string{"-a", w.realSocket(), "-n", containerd.Namespace}, args...)...).CombinedOutput()
	check.NoError(t, err, "ctr %s: %s", strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

// listed is a container as the daemon lists it.
type listed struct{ id, name string }

// list returns the daemon's containers whose names begin with a prefix.
func (w parts) list(t testing.TB, prefix string) []listed {
	t.Helper()
	var all []listed
	if w.containerd == "" {
		for line := range strings.Lines(peertest.Docker(t, "ps", "-a", "--no-trunc", "--filter", "name=^/?"+prefix, "--format", "{{.ID}} {{.Names}}")) {
			id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
			all = append(all, listed{id, name})
		}
		return all
	}
	for _, id := range strings.Fields(w.ctr(t, "containers", "ls", "-q")) {
		var info struct{ Labels map[string]string }
		out, err := exec.Command("ctr", "-a", w.realSocket(), "-n", containerd.Namespace, "containers", "info", id).Output()
		if err != nil {
			continue // removed meanwhile
		}
		check.NoError(t, json.Unmarshal(out, &info))
		if name := info.Labels["org.gpuwhisk.name"]; strings.HasPrefix(name, prefix) {
			all = append(all, listed{id, name})
		}
	}
	return all
}

// find returns a container by its name.
func (w parts) find(t testing.TB, name string) listed {
	t.Helper()
	all := w.list(t, name)
	check.Equal(check.Must(t), len(all), 1, "containers %s: %v", name, all)
	return all[0]
}

// removeContainer removes a container behind the invoker's back.
func (w parts) removeContainer(t testing.TB, id string) {
	t.Helper()
	if w.containerd == "" {
		peertest.Docker(t, "rm", "-f", id)
		return
	}
	w.ctr(t, "tasks", "rm", "-f", id)
	out, err := exec.Command("ctr", "-a", w.realSocket(), "-n", containerd.Namespace, "containers", "rm", id).CombinedOutput()
	// The invoker may have seen the end of the task and removed the container first.
	check.That(t, err == nil || strings.Contains(string(out), "not found"), "ctr containers rm %s: %v: %s", id, err, out)
}

// killContainer ends the processes of a container.
func (w parts) killContainer(t testing.TB, id string) {
	t.Helper()
	if w.containerd == "" {
		peertest.Docker(t, "kill", id)
		return
	}
	w.ctr(t, "tasks", "kill", "-s", "SIGKILL", id)
}

// leaderOf returns the first process of a container, 0 before there is one.
func (w parts) leaderOf(t testing.TB, name string) int {
	t.Helper()
	if w.containerd == "" {
		out, _ := exec.Command("docker", "inspect", "--format", "{{.State.Pid}}", name).CombinedOutput()
		pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
		return pid
	}
	all := w.list(t, name)
	if len(all) == 0 {
		return 0
	}
	for line := range strings.Lines(w.ctr(t, "tasks", "ls")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == all[0].id {
			pid, _ := strconv.Atoi(fields[1])
			return pid
		}
	}
	return 0
}

// tryRemove removes a container that the invoker may be removing.
func (p *platform) tryRemove(id string) {
	if p.parts.containerd == "" {
		harness.RemoveFromDocker(id)
		return
	}
	ctr := []string{"-a", p.parts.realSocket(), "-n", containerd.Namespace}
	_ = exec.Command("ctr", append(ctr, "tasks", "rm", "-f", id)...).Run()
	_ = exec.Command("ctr", append(ctr, "containers", "rm", id)...).Run()
}

// engineAddress is the address of the daemon that runs the actions.
func (w parts) engineAddress() string {
	if w.containerd != "" {
		return "unix://" + w.containerd
	}
	return w.docker
}
