//go:build ansible

package tests

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestOpenWhisksOwnRole: OpenWhisk's own playbooks, from a checkout
// (GPUWHISK_OPENWHISK), deploy our image if only its name is changed, and remove it
// again. The collection swaps the invokers of such a deployment with the inventory and
// the variables in the checkout.
func TestOpenWhisksOwnRole(t *testing.T) { ownRole(t, func(*fixture) {}) }

// TestOpenWhisksOwnRoleScheduled is the same with OpenWhisk's scheduler, which is
// enabled by default.
func TestOpenWhisksOwnRoleScheduled(t *testing.T) { ownRole(t, (*fixture).schedule) }

func ownRole(t *testing.T, mode func(*fixture)) {
	t.Helper()
	checkout := os.Getenv("GPUWHISK_OPENWHISK")
	if checkout == "" {
		t.Skip("GPUWHISK_OPENWHISK is not set: the folder of a checkout of OpenWhisk")
	}
	w := newFixture(t)
	mode(w)
	o := w.openwhisk(checkout)
	o.must("setup.yml")

	ours := []string{"-e", "docker_image_prefix=gpuwhisk", "-e", "docker_image_tag=" + os.Getenv(ownTag)}
	o.show(o.must("invoker.yml", ours...))
	w.usable()
	if w.scheduling == nil {
		w.stopDrains()
	}
	o.show(o.must("invoker.yml", append(ours, "-e", "mode=clean")...))
	o.wantClean()

	importStock(t)
	stock := []string{"-e", "docker_image_prefix=whisk-test", "-e", "docker_image_tag=stock"}
	o.must("invoker.yml", stock...)
	o.show(o.swap("swap"))
	w.wantOurs(t, 0)
	w.usable()
	out := o.swap("swap")
	check.That(t, strings.Contains(out, "changed=0 "), "%s\na second swap changed nothing", out)
	out = o.swap("status")
	check.That(t, strings.Contains(out, " healthy "), "%s\nstatus shows a healthy invoker", out)
	t.Log(out[strings.Index(out, "HOST"):])
	o.show(o.swap("swap_back"))
	w.wantOriginal(t, 0)
	o.must("invoker.yml", append(stock, "-e", "mode=clean")...)
	o.wantClean()
}

// openwhisk is a checkout of OpenWhisk with an operator's files.
type openwhisk struct {
	*fixture
	folder string // a copy of its ansible directory
	engine string // the socket in front of Docker's
	old    string // a virtual environment with the Ansible version of its README
}

// openwhisk copies a checkout's playbooks, because setup.yml writes keys there, and
// writes a file of variables with the addresses of the peers, as an operator does.
func (w *fixture) openwhisk(checkout string) *openwhisk {
	w.t.Helper()
	o := &openwhisk{fixture: w, folder: filepath.Join(w.dir, "openwhisk", "ansible"), engine: os.Getenv("DOCKER_HOST"), old: os.Getenv("GPUWHISK_TEST_ANSIBLE_4")}
	if o.old == "" {
		w.t.Fatal("GPUWHISK_TEST_ANSIBLE_4 is not set: .ci/ansible sets it")
	}
	check.NoError(w.t, os.CopyFS(o.folder, os.DirFS(filepath.Join(checkout, "ansible"))))
	if !w.privileged() {
		o.engine = withoutPrivileges(w.t, o.engine)
	}
	env := w.vars["test_env"].(map[string]string)
	zookeeper := peer(w.t, "zookeeper", "GPUWHISK_ZOOKEEPER_DIR="+filepath.Join(w.dir, "zookeeper"), "GPUWHISK_ZOOKEEPER_HOST="+w.gateway)["GPUWHISK_TEST_ZOOKEEPER"]
	prefix, ok := strings.CutSuffix(env["CONFIG_whisk_couchdb_databases_WhiskEntity"], "whisks")
	check.That(check.Must(w.t), ok, "OpenWhisk's role can name the database %s", env["CONFIG_whisk_couchdb_databases_WhiskEntity"])
	var manifest any
	_ = json.Unmarshal([]byte(env["RUNTIMES_MANIFEST"]), &manifest)
	operator := map[string]any{
		"ansible_host": "127.0.0.1", "whisk_api_host_proto": "http", "whisk_api_host_name": env["WHISK_API_HOST_NAME"], "whisk_api_host_port": env["WHISK_API_HOST_PORT"],
		"skip_pull_runtimes": true, "runtimes_manifest": manifest,
		"kafka_connect_string": env["KAFKA_HOSTS"], "zookeeper_connect_string": zookeeper,
		"db_provider": "CouchDB", "db_prefix": prefix, "db_protocol": env["CONFIG_whisk_couchdb_protocol"],
		"db_host": env["CONFIG_whisk_couchdb_host"], "db_port": env["CONFIG_whisk_couchdb_port"],
		"db_username": env["CONFIG_whisk_couchdb_username"], "db_password": env["CONFIG_whisk_couchdb_password"],
		"db_invoker_user": env["CONFIG_whisk_couchdb_username"], "db_invoker_pass": env["CONFIG_whisk_couchdb_password"],
		"whisk_logs_dir": filepath.Join(w.dir, "logs"), "config_root_dir": filepath.Join(w.dir, "conf"),
		"invoker":                    map[string]any{"port": w.port},
		"docker_sock":                strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"),
		"ansible_python_interpreter": filepath.Join(o.old, "bin/python3"),
	}
	if w.scheduling == nil {
		operator["scheduler_enable"], operator["invokerReactive_spi"] = false, "org.apache.openwhisk.core.invoker.InvokerReactive"
	} else {
		operator["etcd_connect_string"] = env["CONFIG_whisk_etcd_hosts"]
	}
	vars, _ := json.Marshal(operator)
	check.NoError(w.t, os.WriteFile(filepath.Join(w.dir, "operator.json"), vars, 0o600))
	return o
}

// must runs one of OpenWhisk's playbooks with OpenWhisk's version of Ansible.
func (o *openwhisk) must(book string, args ...string) string {
	o.t.Helper()
	return o.playbook(o.old, o.engine, book, args...)
}

// playbook runs a playbook in OpenWhisk's directory, with OpenWhisk's settings of
// Ansible.
func (o *openwhisk) playbook(venv, engine, book string, args ...string) string {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(venv, "bin/ansible-playbook"),
		append([]string{"-i", "environments/local", book, "-e", "@" + filepath.Join(o.dir, "operator.json")}, args...)...)
	c.Dir = o.folder
	c.Env = append(os.Environ(), "PWD="+o.folder, "ANSIBLE_NOCOWS=1", "ANSIBLE_NOCOLOR=1", "ANSIBLE_HOME="+filepath.Join(o.dir, ".ansible"),
		"PATH="+filepath.Join(venv, "bin")+":"+os.Getenv("PATH"), "OPENWHISK_TMP_DIR="+o.dir, "DOCKER_HOST="+engine)
	if venv != o.old {
		c.Env = append(c.Env, "ANSIBLE_COLLECTIONS_PATH="+o.collections())
	}
	out, err := c.CombinedOutput()
	if err != nil {
		o.t.Fatalf("%s %v: %v\n%s\n%s", book, args, err, out, o.logs())
	}
	return string(out)
}

// show logs the tasks of a playbook that were not skipped.
func (o *openwhisk) show(out string) {
	o.t.Helper()
	var did strings.Builder
	var task string
	for line := range strings.Lines(out) {
		switch word, _, _ := strings.Cut(line, " "); word {
		case "TASK", "PLAY":
			task = line
		case "changed:", "ok:", "FAILED":
			line, _, _ = strings.Cut(strings.TrimSpace(line), " => ")
			did.WriteString(task + line + "\n")
			task = ""
		default:
			if strings.Contains(line, "unreachable=") {
				did.WriteString(task + line)
			}
		}
	}
	o.t.Log(did.String())
}

// swap runs a playbook of the collection in OpenWhisk's directory, with OpenWhisk's
// inventory and variables.
func (o *openwhisk) swap(book string) string {
	o.t.Helper()
	operator, _ := json.Marshal(map[string]any{
		"gpuwhisk_version": os.Getenv(ownTag), "gpuwhisk_image_pull": "never", "gpuwhisk_state": filepath.Join(o.dir, "state"),
		"gpuwhisk_controller_url":    o.vars["gpuwhisk_controller_url"], // not a variable of OpenWhisk
		"ansible_python_interpreter": filepath.Join(o.ansible, "venv/bin/python3"),
	})
	return o.playbook(filepath.Join(o.ansible, "venv"), os.Getenv("DOCKER_HOST"), "gpuwhisk.openwhisk."+book, "-e", string(operator))
}

// wantClean checks that OpenWhisk's role has removed everything.
func (o *openwhisk) wantClean() {
	o.t.Helper()
	check.That(o.t, !o.exists("invoker0"), "the role's clean removes the invoker")
	check.Equal(o.t, docker(o.t, "ps", "-aq", "--filter", "name=^/wsk00_"), "", "containers of actions after the role's clean")
	for _, folder := range []string{"logs/invoker0", "conf/invoker/invoker0"} {
		_, err := os.Stat(filepath.Join(o.dir, folder))
		check.ErrorIs(o.t, err, fs.ErrNotExist, "%s after the role's clean", folder)
	}
}
