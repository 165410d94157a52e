//go:build ansible

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// A host with systemd is a container of plain Debian in this machine's network, which
// shares this machine's Docker. The package is installed there.

const (
	debianImage = "GPUWHISK_TEST_DEBIAN"  // .ci/peers/debian.sh builds it
	packageFile = "GPUWHISK_TEST_PACKAGE" // .ci/ansible builds it
)

// giveSystemd turns one host of the inventory into a machine with systemd.
func (w *fixture) giveSystemd(n int) {
	w.t.Helper()
	for _, name := range []string{debianImage, packageFile} {
		if os.Getenv(name) == "" {
			w.t.Fatal(name + " is not set: .ci/ansible sets it")
		}
	}
	client, err := exec.LookPath("docker")
	check.NoError(w.t, err)
	client, _ = filepath.EvalSymlinks(client)
	socket := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	name := fmt.Sprintf("gpuwhisk-test-host%d-%d", n, os.Getpid())
	w.t.Cleanup(func() { _ = exec.Command("docker", "rm", "-f", name).Run() })
	docker(w.t, "run", "-d", "--name", name, "--network", "host", "--cgroupns", "host",
		"--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--tmpfs", "/run", "--tmpfs", "/run/lock", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup",
		"--volume", w.dir+":"+w.dir, "--volume", filepath.Dir(socket)+":"+filepath.Dir(socket), "--volume", client+":/usr/bin/docker:ro",
		os.Getenv(debianImage), "sh", "-c", "mount --make-rshared /; exec /sbin/init") // as on a machine, because credentials are mounted
	late := time.After(waitLimit)
	for {
		out, _ := exec.Command("docker", "exec", name, "systemctl", "is-system-running").CombinedOutput()
		if state := strings.TrimSpace(string(out)); state == "running" || state == "degraded" {
			break
		}
		select {
		case <-late:
			w.t.Fatalf("systemd does not start in a container: %s", docker(w.t, "logs", name))
		case <-time.After(100 * time.Millisecond):
		}
	}
	docker(w.t, "exec", name, "ln", "-sf", socket, "/var/run/docker.sock")
	w.machines[n] = name
	w.hosts[n] = "gpuwhisk_mode=systemd gpuwhisk_package=" + os.Getenv(packageFile)
	w.save()
}

// on runs a command on a host with systemd.
func (w *fixture) on(n int, args ...string) string {
	w.t.Helper()
	return docker(w.t, append([]string{"exec", w.machines[n]}, args...)...)
}

// unit returns the state of a host's invoker in systemd.
func (w *fixture) unit(n int) string {
	out, _ := exec.Command("docker", "exec", w.machines[n], "systemctl", "is-active", fmt.Sprintf("gpuwhisk@%d", n)).Output()
	return strings.TrimSpace(string(out))
}

// exists reports whether there is a container with this name.
func (w *fixture) exists(name string) bool {
	return exec.Command("docker", "container", "inspect", name).Run() == nil
}

// wantUnit checks that a host's invoker is a running unit with the settings of
// OpenWhisk's invoker, and with passwords only in its credentials.
func (w *fixture) wantUnit(n int) {
	w.t.Helper()
	must, name := check.Must(w.t), fmt.Sprint("invoker", n)
	check.Equal(must, w.unit(n), "active", "%s\nafter the swap the unit of host%d", w.logs(), n)
	check.That(must, !w.exists(name), "%s\nafter the swap there is no container %s", w.logs(), name)
	check.That(must, w.exists(name+"-stock"), "%s\nafter the swap there is a container %s-stock", w.logs(), name)
	pid := w.on(n, "systemctl", "show", "--value", "--property=MainPID", fmt.Sprintf("gpuwhisk@%d", n))
	environ := w.on(n, "cat", "/proc/"+pid+"/environ")
	check.That(w.t, strings.Contains(environ, fmt.Sprintf("PORT=%d", w.port+n)), "the unit's environment is the original's")
	check.That(w.t, !strings.Contains(environ, "CONFIG_whisk_couchdb_password"), "the unit's environment has no passwords")
	files := "/etc/gpuwhisk/" + name
	modes := w.on(n, "stat", "--format", "%a", files+".env", files+".credentials", files+".credentials/CONFIG_whisk_couchdb_password")
	check.Equal(w.t, modes, "600\n700\n600", "modes of the settings")
	settings := w.on(n, "cat", files+".env")
	check.That(w.t, !strings.Contains(settings, "password"), "%s.env has no passwords", files)
	check.Equal(w.t, w.on(n, "gpuwhisk", "ping", "--id", fmt.Sprint(n)), "pong", "gpuwhisk ping")
}

// wantNoUnit checks that nothing of the unit is left except the package.
func (w *fixture) wantNoUnit(n int) {
	w.t.Helper()
	check.Equal(w.t, w.unit(n), "inactive", "after the way back the unit of host%d", n)
	left := w.on(n, "sh", "-c", "ls -d /etc/gpuwhisk/invoker?.* /etc/systemd/system/gpuwhisk@* /etc/systemd/system/*/gpuwhisk@* 2>/dev/null || true")
	check.Equal(w.t, left, "", "remaining files")
}
