package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// invokerContainer is how an invoker runs in a container of its own.
type invokerContainer struct {
	image    string   // gpuwhisk/invoker; empty: this test's program in an action's image
	hostPIDs bool     // it sees the processes of its host
	settings []string // environment beside the others
	base     string   // of its admin page, which the image does not print
}

// command has the invoker start as an operator would: with the host's network, the
// daemon's socket, and the directories that are shared with the host under their
// own names.
func (b *invokerContainer) command(p *platform, alone *exec.Cmd) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	run := []string{"run", "--rm", "--interactive", "--env", harness.EndsWithInput + "=1", "--name", "invoker-" + p.unique, "--network", "host", "--entrypoint", self,
		"--volume", self + ":" + self + ":ro"}
	if b.hostPIDs {
		run = append(run, "--pid", "host")
	}
	library := p.outOf["CONFIG_whisk_gpu_shim_library"]
	socket := strings.TrimPrefix(p.parts.docker, "unix://")
	for _, dir := range []string{p.dir, p.outOf["CONFIG_whisk_gpu_shim_dir"], filepath.Dir(socket), filepath.Dir(library)} {
		run = append(run, "--volume", dir+":"+dir)
	}
	for _, v := range p.child.environ {
		name, _, _ := strings.Cut(v, "=")
		run = append(run, "--env", name)
	}
	image, args := "gpuwhisk/action-python3:"+p.parts.images, alone.Args[1:]
	if b.image != "" {
		run = append(run, "--entrypoint", "/init.sh")
		image, args = b.image, args[1:] // without the role
	}
	cmd := exec.Command("docker", append(append(run, image), args...)...)
	cmd.Env = alone.Env
	_, err = cmd.StdinPipe() // ends with this process
	return cmd, err
}

// TestInvokerInAContainer runs GPU functions with an invoker that is itself in a
// container, with and without the host's process ids. Without them, the kernel shows it
// no processes. It still distinguishes the processes of containers in reports, and a
// process that reports less than the device shows is charged to its container.
func TestInvokerInAContainer(t *testing.T) {
	t.Parallel()
	all := map[string]invokerContainer{"own process ids": {}}
	if os.Getenv("GPUWHISK_LONG") == "1" { // the image takes minutes to build
		image := invokerImage(t)
		all["host's process ids"] = invokerContainer{hostPIDs: true}
		all["image, own process ids"] = invokerContainer{image: image}
		all["image, host's process ids"] = invokerContainer{image: image, hostPIDs: true}
	}
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			invokerInAContainer(t, b)
		})
	}
}

func invokerInAContainer(t *testing.T, b invokerContainer) {
	needDockerEngine(t)
	w := dockerParts(t)
	if b.image != "" {
		port := peertest.FreePort(t, 4000)
		b.settings = []string{fmt.Sprint("PORT=", port)}
		b.base = fmt.Sprint("http://127.0.0.1:", port)
	}
	p := startGPUIn(t, w, 150, setup{child: true, inContainer: &b})
	p.deployGPU(true, "alpha", "beta")
	for _, want := range []struct {
		name, start string
		runs        int64
	}{
		{"alpha", "cold", 1}, {"alpha", "gpu-warm", 2}, {"beta", "cold", 1}, {"alpha", "host-warm", 3}, {"beta", "host-warm", 2},
	} {
		p.gpuCallOf(want.name, 2*block, want.runs, want.start)
	}
	p.wantMetric("gpuwhisk_shim_processes", 2)
	p.wantMetric("gpuwhisk_shim_unhooked_containers", 0)
	// Processes have ended when their container has, also where they are not seen.
	p.endIdle("alpha", "beta")
	p.uses(0)
	p.sneaks()
}

// sneaks runs a function whose child allocates more than its limit without the shim and
// reports little.
func (p *platform) sneaks() {
	p.t.Helper()
	p.insertGPU("sneak", map[string]any{"limit": "20 MB"}, python(strings.ReplaceAll(sneak, "300 << 20", "120 << 20")))
	p.call("sneak", nil).want(p.t, activation.StatusDeveloperError, "limit of 20 MB")
	p.gone("guest_sneak")
}

// invokerImage builds gpuwhisk/invoker as `make image` does.
func invokerImage(t *testing.T) string {
	t.Helper()
	if image := os.Getenv("GPUWHISK_TEST_INVOKER_IMAGE"); image != "" {
		return image
	}
	const image = "gpuwhisk/invoker:e2e"
	cmd := exec.Command("../../../../docker/invoker/build.sh")
	cmd.Env = append(os.Environ(), "IMAGE="+image)
	out, err := cmd.CombinedOutput()
	check.NoError(t, err, "build the invoker's image: %s", out)
	environ, err := exec.Command("docker", "image", "inspect", "--format", "{{range .Config.Env}}{{println .}}{{end}}", image).CombinedOutput()
	for _, want := range harness.UnitEnvironment(t) {
		check.Contains(t, "\n"+string(environ), "\n"+want+"\n", "the image lacks a setting of the unit (%v)", err)
	}
	return image
}
