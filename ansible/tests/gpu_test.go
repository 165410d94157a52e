//go:build ansible

package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Stand-ins for NVIDIA's programs and Docker's service. They store their settings in
// files, like the real programs.
var fakes = map[string]string{
	"nvidia-smi": `#!/bin/sh
[ "$1" != -pm ] || exec touch /run/persistent
on=Disabled; [ ! -e /run/persistent ] || on=Enabled
echo "$(cat /run/driver), NVIDIA A100-SXM4-40GB, $on"
`,
	"nvidia-ctk": `#!/bin/sh
case "$1 $2" in
--version*) echo "NVIDIA Container Toolkit CLI version 1.17.4" ;;
"cdi generate")
	[ ! -e /run/no-libraries ] || { echo "failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND" >&2; exit 1; }
	echo "libcuda.so.$(cat /run/driver)" >"${3#--output=}" ;;
"runtime configure") touch /run/runtime ;;
esac
`,
	"docker": `#!/bin/sh
[ ! -e /run/no-docker ] || { echo "Cannot connect to the Docker daemon" >&2; exit 1; }
echo io.containerd.runc.v2 runc; [ ! -e /run/runtime ] || echo nvidia
`,
}

// TestGPU prepares a host with stand-ins for NVIDIA's programs, and checks the messages
// about missing parts. It uses no GPU.
func TestGPU(t *testing.T) {
	long(t)
	w := &fixture{t: t, dir: t.TempDir(), ansible: os.Getenv("GPUWHISK_TEST_ANSIBLE"), vars: map[string]any{}, hosts: map[int]string{}, machines: map[int]string{}}
	w.giveSystemd(0)
	sh := func(script string) string { t.Helper(); return w.on(0, "sh", "-euc", script) }
	const book = "gpuwhisk.openwhisk.gpu"
	args := []string{"-e", "gpu_hosts=host0"}
	output := func(want ...string) {
		t.Helper()
		out, ok := w.play(book, args...)
		check.That(check.Must(t), !ok, "%s\nit fails", out)
		for _, text := range want {
			found := strings.Contains(strings.Join(strings.Fields(out), " "), text)
			check.That(check.Must(t), found, "%s\nit fails with %q", out, text)
		}
	}
	put := func(name string) {
		t.Helper()
		sh(fmt.Sprintf("cat >/usr/local/bin/%s <<'END'\n%sEND\nchmod +x /usr/local/bin/%s", name, fakes[name], name))
	}
	changes := func(n int, more ...string) {
		t.Helper()
		out := w.must(book, append(args, more...)...)
		check.That(check.Must(t), strings.Contains(out, fmt.Sprintf("changed=%d ", n)), "%s\n%d changes", out, n)
	}

	output("nvidia-smi finds no GPU here", "Install NVIDIA's driver")
	put("nvidia-smi")
	sh("echo 450.80.02 >/run/driver")
	output("Driver 450.80.02 is older than 470")
	sh("echo 550.54.15 >/run/driver")
	output("nvidia-ctk is not on this host", "package nvidia-container-toolkit cannot be installed", "Add NVIDIA's repository")
	put("nvidia-ctk")
	sh("touch /run/no-libraries")
	output("writes no /etc/cdi/nvidia.yaml: failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND")
	sh("rm /run/no-libraries; touch /run/no-docker")
	put("docker")
	output("docker info does not answer: Cannot connect to the Docker daemon", "gpu_docker_runtime")
	w.must(book, append(args, "-e", "gpuwhisk_engine=containerd")...) // needs no Docker
	sh(`rm -rf /run/no-docker /run/persistent /etc/cdi
		printf '[Service]\nExecStart=/bin/sleep infinity\nExecReload=/bin/touch /run/reloaded\n' >/etc/systemd/system/docker.service
		systemctl daemon-reload; systemctl start docker`)

	w.must(book, append(args, "--check")...)
	check.Equal(t, sh("ls -d /etc/cdi /run/persistent /run/runtime 2>/dev/null || true"), "", "changes by --check")
	w.must(book, args...)
	sh("grep -q 550.54.15 /etc/cdi/nvidia.yaml; test -e /run/persistent; test -e /run/runtime; test -e /run/reloaded")
	changes(0)
	sh("echo 560.35.03 >/run/driver")
	changes(1)
	sh("grep -q 560.35.03 /etc/cdi/nvidia.yaml")
	out, ok := w.play(book, append(args, "-e", "gpu_mps=true")...)
	check.That(t, !ok, "%s\nit fails without MPS's program", out)
	check.That(t, strings.Contains(out, "nvidia-cuda-mps-control is not on this host"), "%s\nit says that MPS's program is missing", out)
}
