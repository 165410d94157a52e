//go:build ansible

package tests

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
)

// waitLimit limits the wait for an expected event.
const waitLimit = 5 * time.Minute

// short selects the quick form: two hosts, one swap and one way back. make swap-test
// runs the whole form.
var short = os.Getenv("GPUWHISK_SHORT") == "1"

// hosts is the number of hosts in the inventory. Their indexes are the invokers'
// numbers.
var hosts = map[bool]int{false: 3, true: 2}[short]

// long skips a test that does not belong to the short form.
func long(t *testing.T) {
	t.Helper()
	if short {
		t.Skip("not in the short form: make swap-test runs it")
	}
}

// fixture is a deployment of OpenWhisk with an operator's files.
type fixture struct {
	t       *testing.T
	dir     string
	ansible string // directory of Ansible
	admin   *standalone.Standalone
	kafka   string
	gateway string         // this machine's address for containers
	vars    map[string]any // group_vars of the group all
	hosts   map[int]string // further variables of a host in the inventory
	groups  string         // further groups of the inventory

	machines map[int]string // containers that act as hosts with systemd
	port     int            // of invoker 0

	scheduling *scheduling // nil in classic mode
}

func run(t *testing.T, env []string, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), env...)
	var out, diag bytes.Buffer
	c.Stdout, c.Stderr = &out, &diag
	if err := c.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", name, args, err, out.String(), diag.String())
	}
	return strings.TrimSpace(out.String())
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, nil, "docker", args...)
}

// peer starts one of .ci/peers, and stops it at the end of the test.
func peer(t *testing.T, name string, env ...string) map[string]string {
	t.Helper()
	t.Cleanup(func() {
		if _, err := peertest.Script(env, name, "stop"); err != nil {
			t.Error(err)
		}
	})
	output, err := peertest.Script(env, name, "start")
	check.NoError(t, err)
	return output
}

const (
	stockImage = "whisk-test/invoker:stock"
	ownTag     = "GPUWHISK_TEST_INVOKER_TAG" // tag of gpuwhisk/invoker; .ci/ansible builds it
)

// newFixture starts everything except the invokers.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	for _, name := range []string{ownTag, "GPUWHISK_TEST_IMAGES_TAG", "GPUWHISK_TEST_ANSIBLE"} {
		if os.Getenv(name) == "" {
			t.Fatal(name + " is not set: .ci/ansible sets it")
		}
	}
	own := "gpuwhisk/invoker:" + os.Getenv(ownTag)
	w := &fixture{t: t, dir: t.TempDir(), ansible: os.Getenv("GPUWHISK_TEST_ANSIBLE"), hosts: map[int]string{}, machines: map[int]string{}}
	// The address at which containers reach this machine.
	fields := strings.Fields(docker(t, "run", "--rm", own, "ip", "route", "show", "default"))
	at := slices.Index(fields, "via")
	check.AtLeast(check.Must(t), at, 0, "%v\nthe way out of a container", fields)
	w.gateway = fields[at+1]
	w.kafka = peer(t, "kafka", "GPUWHISK_KAFKA_DIR="+filepath.Join(w.dir, "kafka"), "GPUWHISK_KAFKA_HOST="+w.gateway)["GPUWHISK_TEST_KAFKA"]
	couch := peer(t, "pouchdb", "GPUWHISK_POUCHDB_DIR="+filepath.Join(w.dir, "pouchdb"), "GPUWHISK_POUCHDB_HOST="+w.gateway)["GPUWHISK_TEST_COUCHDB"]

	admin, err := http.NewRequest(http.MethodPut, couch+"/_config/admins/whisk", strings.NewReader(`"secret"`))
	check.NoError(t, err)
	res, err := http.DefaultClient.Do(admin)
	check.NoError(t, err, "make a user at the database")
	check.Equal(check.Must(t), res.StatusCode, http.StatusOK, "make a user at the database: status")
	res.Body.Close()
	var environ []string
	w.admin, err = standalone.Start(t.Context(), standalone.Options{
		Data: t.TempDir(), Runtime: "docker", Kafka: w.kafka, CouchDB: strings.Replace(couch, "://", "://whisk:secret@", 1), Docker: os.Getenv("DOCKER_HOST"),
		Manifest: manifest(), Memory: "1024m",
		Invoker: func(ctx context.Context, env, _ []string) (func() error, error) {
			environ = env
			return func() error { <-ctx.Done(); return nil }, nil
		},
	})
	check.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		defer cancel()
		_ = w.admin.Stop(ctx)
	})
	w.writeInventory(environ)
	t.Cleanup(w.removeContainers)
	return w
}

func manifest() []byte {
	return []byte(`{"runtimes":{"nodejs":[{"kind":"nodejs:20","default":true,"image":{"prefix":"gpuwhisk","name":"action-nodejs","tag":"` +
		os.Getenv("GPUWHISK_TEST_IMAGES_TAG") + `"},"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}]},"blackboxes":[]}`)
}

// deployOriginal starts the stand-in of OpenWhisk's invoker on all hosts, as OpenWhisk's
// role would.
func (w *fixture) deployOriginal() {
	w.t.Helper()
	importStock(w.t)
	w.must("deploy.yml")
	w.healthy()
}

// importStock builds the stand-in's image: its program as /init.sh, and a shell.
func importStock(t *testing.T) {
	program := filepath.Join(t.TempDir(), "init.sh")
	run(t, []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", program, "./stock")
	var image bytes.Buffer
	tw := tar.NewWriter(&image)
	for at, from := range map[string]string{"init.sh": program, "bin/sh": "/bin/busybox"} {
		data, err := os.ReadFile(from)
		check.NoError(t, err)
		_ = tw.WriteHeader(&tar.Header{Name: at, Mode: 0o755, Size: int64(len(data))})
		_, _ = tw.Write(data)
	}
	_ = tw.Close()
	c := exec.Command("docker", "import", "-", stockImage)
	c.Stdin = &image
	out, err := c.CombinedOutput()
	check.NoError(t, err, "import the stand-in: %s", out)
}

// writeInventory writes the files of an operator.
func (w *fixture) writeInventory(environ []string) {
	w.t.Helper()
	env := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	delete(env, "DOCKER_HOST") // its socket is mounted at the usual path
	delete(env, "PATH")
	delete(env, "CONFIG_whisk_gpu_state") // the container has its own, or a mount of the collection
	maps.Copy(env, map[string]string{
		"PORT": "8080", "CONFIG_whisk_gpu_devices": "none",
		"CONFIG_whisk_invoker_username": "invoker.user", "CONFIG_whisk_invoker_password": "invoker.pass",
		"CONFIG_whisk_invoker_resource_tags": " '' ", "CONFIG_whisk_userEvents_enabled": "false",
		"CONFIG_whisk_gpu_simulated_devices": "0",
	})
	delete(env, "CONFIG_whisk_gpu_simulated_devices")
	w.port = freePorts(w.t, hosts)
	w.vars = map[string]any{
		"docker_image_prefix": "whisk-test", "docker_image_tag": "stock",
		"whisk_logs_dir":   filepath.Join(w.dir, "logs"),
		"invoker":          map[string]any{"port": w.port, "protocol": "http", "confdir": filepath.Join(w.dir, "conf")},
		"test_env":         env,
		"test_privileged":  w.privileged(),
		"gpuwhisk_state":   filepath.Join(w.dir, "state"),
		"test_docker_root": docker(w.t, "info", "--format", "{{.DockerRootDir}}"), "test_docker_socket": strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"),
		"gpuwhisk_version": os.Getenv(ownTag), "gpuwhisk_image_pull": "never",
		"gpuwhisk_controller_url": w.admin.Info().APIHost, "gpuwhisk_settle": 1,
	}
	w.save()
}

// privileged reports whether this machine may run privileged containers, as OpenWhisk's
// role does. A machine that is itself a container may not.
func (w *fixture) privileged() bool {
	err := exec.Command("docker", "run", "--rm", "--privileged", "gpuwhisk/invoker:"+os.Getenv(ownTag), "true").Run()
	if err != nil {
		w.t.Log("no privileged containers here: invokers run without")
	}
	return err == nil
}

func (w *fixture) save() {
	w.t.Helper()
	check.NoError(w.t, os.MkdirAll(filepath.Join(w.dir, "group_vars"), 0o755))
	text, _ := json.Marshal(w.vars)
	var inventory strings.Builder
	inventory.WriteString("[invokers]\n")
	for n := range hosts {
		reached := "ansible_connection=local ansible_python_interpreter=" + w.ansible + "/venv/bin/python3"
		if name, ok := w.machines[n]; ok {
			reached = "ansible_connection=community.docker.docker ansible_docker_host=" + name + " ansible_python_interpreter=/usr/bin/python3"
		}
		fmt.Fprintf(&inventory, "host%d ansible_host=127.0.0.1 %s %s\n", n, reached, w.hosts[n])
	}
	inventory.WriteString(w.groups)
	for name, data := range map[string][]byte{"group_vars/all.json": text, "hosts": []byte(inventory.String())} {
		check.NoError(w.t, os.WriteFile(filepath.Join(w.dir, name), data, 0o600))
	}
}

// freePorts returns the first of n consecutive ports without a listener.
func freePorts(t *testing.T, n int) int {
	for base := 21000 + os.Getpid()%8000; base < 32000; base += n {
		free := 0
		for i := range n {
			l, err := net.Listen("tcp", fmt.Sprintf(":%d", base+i))
			if err == nil {
				l.Close()
				free++
			}
		}
		if free == n {
			return base
		}
	}
	t.Fatal("no free ports")
	return 0
}

// removeContainers removes all containers of this test, including those of actions.
func (w *fixture) removeContainers() {
	for n := range hosts {
		for _, suffix := range []string{"", "-stock", "-next", "-old", "-doctor", "-probe", "-drained"} {
			_ = exec.Command("docker", "rm", "-f", fmt.Sprintf("invoker%d%s", n, suffix)).Run()
		}
		out, _ := exec.Command("docker", "ps", "-aq", "--filter", fmt.Sprintf("name=^/wsk%d%d_", n, n)).Output()
		if ids := strings.Fields(string(out)); len(ids) > 0 {
			_ = exec.Command("docker", append([]string{"rm", "-f"}, ids...)...).Run()
		}
	}
}

// play runs a playbook. It returns the output, and whether it succeeded.
func (w *fixture) play(book string, args ...string) (string, bool) {
	w.t.Helper()
	if strings.HasSuffix(book, ".yml") {
		book, _ = filepath.Abs(book)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute) // for a busy machine
	defer cancel()
	c := exec.CommandContext(ctx, filepath.Join(w.ansible, "venv/bin/ansible-playbook"), append([]string{"-i", filepath.Join(w.dir, "hosts"), book}, args...)...)
	c.Dir = w.dir
	c.Env = append(os.Environ(), "ANSIBLE_COLLECTIONS_PATH="+w.collections(), "ANSIBLE_NOCOWS=1", "ANSIBLE_NOCOLOR=1",
		"ANSIBLE_LOCALHOST_WARNING=false", "ANSIBLE_HOME="+filepath.Join(w.dir, ".ansible"), "ANSIBLE_PIPELINING=1",
		"PATH="+filepath.Join(w.ansible, "venv/bin")+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

// collections creates a directory in which this checkout replaces the installed
// collection, beside the collection with the Docker modules.
func (w *fixture) collections() string {
	own := filepath.Join(w.dir, "collections")
	at := filepath.Join(own, "ansible_collections", "gpuwhisk")
	check.NoError(w.t, os.MkdirAll(at, 0o755))
	here, _ := filepath.Abs("..")
	_ = os.Symlink(here, filepath.Join(at, "openwhisk"))
	return own + ":" + filepath.Join(w.ansible, "collections")
}

// must runs a playbook that must succeed.
func (w *fixture) must(book string, args ...string) string {
	w.t.Helper()
	began := time.Now()
	out, ok := w.play(book, args...)
	if !ok {
		w.t.Fatalf("%s failed:\n%s\n%s", book, out, w.logs())
	}
	w.t.Logf("%s: %v", book, time.Since(began).Round(time.Second))
	return out
}

// logs returns the ends of the invokers' logs.
func (w *fixture) logs() string {
	var all strings.Builder
	for n := range hosts {
		data, _ := os.ReadFile(fmt.Sprintf("%s/logs/invoker%d/invoker%d_logs.log", w.dir, n, n))
		fmt.Fprintf(&all, "invoker%d: %s\n", n, data[max(0, len(data)-1500):])
	}
	return all.String()
}

// unchanged reports whether the output shows no changes.
func unchanged(out string) bool {
	recap := out[strings.LastIndex(out, "PLAY RECAP"):]
	return strings.Count(recap, "changed=0 ") == hosts
}

// image returns the image of the container with an invoker's name.
func (w *fixture) image(n int) string {
	w.t.Helper()
	return docker(w.t, "inspect", "--format", "{{.Config.Image}}", fmt.Sprintf("invoker%d", n))
}

// healthy waits until the controller has working invokers on all hosts.
func (w *fixture) healthy() {
	w.t.Helper()
	late := time.After(waitLimit)
	for {
		var standing map[string]string
		if res, err := http.Get(w.vars["gpuwhisk_controller_url"].(string) + "/invokers"); err == nil {
			_ = json.NewDecoder(res.Body).Decode(&standing)
			res.Body.Close()
		}
		up := 0
		for _, state := range standing {
			if state == "up" {
				up++
			}
		}
		if up == hosts {
			return
		}
		select {
		case <-late:
			w.t.Fatalf("not all invokers are up: %v\n%s", standing, w.logs())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
