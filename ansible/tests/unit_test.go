//go:build ansible

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A host with systemd of its own is a container of plain Debian on this
// machine's network, whose Docker it shares. The package is installed there.

const (
	debianImage = "GPUWHISK_TEST_DEBIAN"  // .ci/peers/debian.sh makes it
	packageFile = "GPUWHISK_TEST_PACKAGE" // .ci/ansible builds it
)

// giveSystemd makes one host of the inventory a machine with systemd.
func (w *fixture) giveSystemd(n int) {
	w.t.Helper()
	for _, name := range []string{debianImage, packageFile} {
		if os.Getenv(name) == "" {
			w.t.Fatal(name + " is not set: .ci/ansible sets it")
		}
	}
	client, err := exec.LookPath("docker")
	if err != nil {
		w.t.Fatal(err)
	}
	client, _ = filepath.EvalSymlinks(client)
	socket := strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	name := fmt.Sprintf("gpuwhisk-test-host%d-%d", n, os.Getpid())
	w.t.Cleanup(func() { _ = exec.Command("docker", "rm", "-f", name).Run() })
	docker(w.t, "run", "-d", "--name", name, "--network", "host", "--cgroupns", "host",
		"--cap-add", "SYS_ADMIN", "--security-opt", "seccomp=unconfined", "--security-opt", "apparmor=unconfined",
		"--tmpfs", "/run", "--tmpfs", "/run/lock", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup",
		"--volume", w.dir+":"+w.dir, "--volume", filepath.Dir(socket)+":"+filepath.Dir(socket), "--volume", client+":/usr/bin/docker:ro",
		os.Getenv(debianImage), "sh", "-c", "mount --make-rshared /; exec /sbin/init") // as on a machine: credentials are mounts
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

// unit is the state of a host's invoker in systemd.
func (w *fixture) unit(n int) string {
	out, _ := exec.Command("docker", "exec", w.machines[n], "systemctl", "is-active", fmt.Sprintf("gpuwhisk@%d", n)).Output()
	return strings.TrimSpace(string(out))
}

// exists reports whether a container is there under this name.
func (w *fixture) exists(name string) bool {
	return exec.Command("docker", "container", "inspect", name).Run() == nil
}

// wantUnit checks that a host's invoker is a unit that runs with the original's
// settings, with its passwords nowhere but in its credentials.
func (w *fixture) wantUnit(n int) {
	w.t.Helper()
	if state := w.unit(n); state != "active" || w.exists(fmt.Sprintf("invoker%d", n)) || !w.exists(fmt.Sprintf("invoker%d-stock", n)) {
		w.t.Fatalf("after the swap the unit of host%d is %s:\n%s", n, state, w.logs())
	}
	pid := w.on(n, "systemctl", "show", "--value", "--property=MainPID", fmt.Sprintf("gpuwhisk@%d", n))
	environ := w.on(n, "cat", "/proc/"+pid+"/environ")
	if !strings.Contains(environ, fmt.Sprintf("PORT=%d", w.port+n)) {
		w.t.Error("the unit's environment is not the original's")
	}
	if strings.Contains(environ, "CONFIG_whisk_couchdb_password") {
		w.t.Error("the unit's environment has passwords")
	}
	files := fmt.Sprintf("/etc/gpuwhisk/invoker%d", n)
	if got := w.on(n, "stat", "--format", "%a", files+".env", files+".credentials", files+".credentials/CONFIG_whisk_couchdb_password"); got != "600\n700\n600" {
		w.t.Errorf("modes of the settings: %s", got)
	}
	if settings := w.on(n, "cat", files+".env"); strings.Contains(settings, "password") {
		w.t.Errorf("passwords in %s.env", files)
	}
	if found := w.on(n, "gpuwhisk", "ping", "--id", fmt.Sprint(n)); found != "pong" {
		w.t.Errorf("gpuwhisk ping: %s", found)
	}
}

// wantNoUnit holds that nothing of it is left but the package.
func (w *fixture) wantNoUnit(n int) {
	w.t.Helper()
	if state := w.unit(n); state != "inactive" {
		w.t.Errorf("after the way back the unit of host%d is %s", n, state)
	}
	if left := w.on(n, "sh", "-c", "ls -d /etc/gpuwhisk/invoker?.* /etc/systemd/system/gpuwhisk@* /etc/systemd/system/*/gpuwhisk@* 2>/dev/null || true"); left != "" {
		w.t.Errorf("left behind: %s", left)
	}
}
