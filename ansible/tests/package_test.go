//go:build ansible

package tests

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// packages lists the commands for each kind of package. Commands for a file get its path
// as the last argument.
var packages = map[string]struct{ install, upgrade, remove, purge []string }{
	"deb": {
		[]string{"apt-get", "install", "-y", "--no-install-recommends"}, []string{"apt-get", "install", "-y", "--no-install-recommends"},
		[]string{"apt-get", "remove", "-y", "gpuwhisk"}, []string{"apt-get", "purge", "-y", "gpuwhisk"},
	},
	"rpm": { // only by rpm: Debian does not know the package names of rpm
		[]string{"rpm", "-i", "--nodeps", "--force-debian"}, []string{"rpm", "-U", "--nodeps", "--force-debian"},
		[]string{"rpm", "-e", "--force-debian", "gpuwhisk"}, nil,
	},
}

// TestPackage follows a package on a fresh host with systemd: it is installed,
// configured, runs a first action, is upgraded while an action runs, removed and purged.
func TestPackage(t *testing.T) {
	dir := os.Getenv("GPUWHISK_TEST_PACKAGES") // old/ and new/, each with one package of each kind
	if dir == "" {
		t.Fatal("GPUWHISK_TEST_PACKAGES is not set: .ci/ansible sets it")
	}
	w := newFixture(t)
	for _, kind := range slices.Sorted(maps.Keys(packages)) {
		if short && kind != "deb" {
			continue
		}
		t.Run(kind, func(t *testing.T) { w.packageLives(t, kind, dir) })
	}
}

func (w *fixture) packageLives(t *testing.T, kind, dir string) {
	outer := w.t
	w.t = t
	defer func() { w.t = outer }()
	file := func(age string) string {
		found, _ := filepath.Glob(filepath.Join(dir, age, "*."+kind))
		check.Equal(check.Must(t), len(found), 1, "%v: %s packages in %s/%s", found, kind, dir, age)
		docker(t, "cp", found[0], w.machines[0]+":/root/"+age+"."+kind)
		return "/root/" + age + "." + kind
	}
	w.giveSystemd(0)
	p := packages[kind]
	on := func(args ...string) string { t.Helper(); return w.on(0, args...) }

	show := func(args ...string) {
		t.Helper()
		t.Logf("$ %s\n%s", strings.Join(args, " "), on(args...))
	}
	show(append(p.install, file("old"))...)
	show("gpuwhisk", "--version")
	check.Equal(t, on("stat", "--format", "%a", "/etc/gpuwhisk/invoker.env"), "600", "mode of the settings")
	page := on("zcat", "/usr/share/man/man1/gpuwhisk-invoker.1.gz")
	check.That(t, strings.Contains(page, ".SH SYNOPSIS"), "%.200s\nthe manual is there", page)
	on("grep", "-q", "openwhisk-client-go", "/usr/share/doc/gpuwhisk/third-party-licenses.txt")
	check.Contains(t, on("sh", "-c", "gpuwhisk doctor; true"), "skip  brokers", "doctor on a bare host")
	on("systemd-analyze", "verify", "--man=no", "gpuwhisk@0.service")
	w.settings(0)
	show("sh", "-c", "gpuwhisk doctor --id 0; true")
	on("systemctl", "enable", "--now", "--no-block", "gpuwhisk@0")
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if err := w.admin.WaitReady(ctx); err != nil {
		t.Fatalf("the unit does not become healthy: %v\n%s", err, on("journalctl", "--no-pager", "-u", "gpuwhisk@0"))
	}
	show("systemctl", "show", "--property=ActiveState,SubState,StatusText", "gpuwhisk@0")
	w.create("hello", `function main(p) { return {greeting: 'hello ' + p.name} }`)
	w.greets("package", func() string { return on("journalctl", "--no-pager", "-u", "gpuwhisk@0") })

	pid := on("systemctl", "show", "--value", "--property=MainPID", "gpuwhisk@0")
	answer := w.startSlow()
	on(append(p.upgrade, file("new"))...)
	check.Contains(t, <-answer, `"late":true`, "activations that ran during the upgrade")
	now := on("systemctl", "show", "--value", "--property=MainPID", "gpuwhisk@0")
	check.That(t, now != pid, "the upgrade restarted the unit, which was process %s", pid)
	check.Equal(t, w.unit(0), "active", "the unit after the upgrade")
	settings := on("cat", "/etc/gpuwhisk/invoker.env")
	check.That(t, strings.Contains(settings, "KAFKA_HOSTS=\""+w.kafka), "the upgrade left the settings as they were")
	check.NoError(t, w.admin.WaitReady(ctx), "after the upgrade")

	on(p.remove...)
	check.That(t, w.unit(0) != "active", "removed, it has ended")
	check.Equal(t, on("sh", "-c", "ls /usr/bin/gpuwhisk 2>/dev/null || true"), "", "the program, when it was removed,")
	check.That(t, on("sh", "-c", "ls /etc/gpuwhisk/") != "", "removing left the settings")
	check.That(t, on("ls", "/var/lib/gpuwhisk") != "", "removing left the state")
	if p.purge == nil {
		return
	}
	on(p.purge...)
	check.Equal(t, on("sh", "-c", "ls -d /etc/gpuwhisk /var/lib/gpuwhisk 2>/dev/null || true"), "", "files after purging")
}

// settings writes the service's settings by hand, as an operator does.
func (w *fixture) settings(n int) {
	w.t.Helper()
	var text strings.Builder
	env := maps.Clone(w.vars["test_env"].(map[string]string))
	env["PORT"] = fmt.Sprint(w.port + n)
	env["DOCKER_HOST"] = os.Getenv("DOCKER_HOST")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(env[name])
		fmt.Fprintf(&text, "%s=\"%s\"\n", name, value)
	}
	path := filepath.Join(w.dir, "settings")
	check.NoError(w.t, os.WriteFile(path, []byte(text.String()), 0o600))
	w.on(n, "cp", path, "/etc/gpuwhisk/invoker.env")
	socket := filepath.Dir(strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"))
	w.on(n, "sh", "-euc", `mkdir -p /etc/systemd/system/gpuwhisk@.service.d
		printf '[Service]\nBindReadOnlyPaths=%s\n' "$1" >/etc/systemd/system/gpuwhisk@.service.d/docker.conf
		systemctl daemon-reload`, "sh", socket)
}

// startSlow runs an action that takes a while, and returns when it has begun.
func (w *fixture) startSlow() <-chan string {
	w.t.Helper()
	w.create("slow", `function main() { console.log('begun'); return new Promise(r => setTimeout(() => r({late: true}), 15000)) }`)
	answer := make(chan string, 1)
	go func() {
		status, text, err := w.call("POST", "actions/slow?blocking=true", "{}")
		answer <- fmt.Sprintf("%v %d %s", err, status, text)
	}()
	late := time.After(waitLimit)
	for !w.printed("begun") {
		select {
		case <-late:
			w.t.Fatalf("the action does not begin\n%s", w.logs())
		case output := <-answer:
			w.t.Fatalf("it ended too early: %s", output)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return answer
}
