package e2e

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/peertest"
)

// world says of which parts an installation is made. The zero value is all
// our own.
type world struct {
	kafka  string // host:port; empty: the embedded broker
	couch  string // URL with user and password; empty: the embedded store
	docker string // DOCKER_HOST; empty: actions as processes
	images string // tag of the action images

	shared bool // another installation runs beside this one
}

func (w world) real() bool { return w.docker != "" }

// eachWorld runs a test with our own parts and with real ones, both at once.
// Which of them a goroutine is of that was left cannot be told, so they are
// counted when both have ended.
func eachWorld(t *testing.T, test func(t *testing.T, w world)) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() { noGoroutines(t, before) })
	for name, parts := range map[string]func(testing.TB) world{"embedded": ownParts, "real": realParts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := parts(t)
			w.shared = true
			test(t, w)
		})
	}
}

func ownParts(t testing.TB) world {
	t.Helper()
	for _, program := range []string{"python3", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, program+" is not on the PATH")
		}
	}
	return world{}
}

func realParts(t testing.TB) world {
	t.Helper()
	return world{kafka: realKafka(t).addr, couch: realCouch(t), docker: realDocker(t), images: realImages(t)}
}

// dockerParts are our own parts with actions in containers.
func dockerParts(t testing.TB) world {
	t.Helper()
	return world{docker: realDocker(t), images: realImages(t)}
}

// missing skips a test for want of a peer, or fails it where peers must be.
func missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// kafkaPeer is an Apache Kafka of these tests alone: they use the topics of
// invoker 0, and they stop it.
type kafkaPeer struct {
	addr string
	env  []string
}

var kafkaOnce = sync.OnceValues(func() (*kafkaPeer, error) {
	dir, err := os.MkdirTemp("", "gpuwhisk-e2e-kafka-")
	if err != nil {
		return nil, err
	}
	k := &kafkaPeer{env: []string{"GPUWHISK_KAFKA_DIR=" + dir, "GPUWHISK_KEEP=1", "GPUWHISK_KAFKA_BRIEF=1"}}
	atExit(func() error {
		_, err := peertest.Script(k.env[:1], "kafka", "stop")
		return err
	})
	return k, k.start()
})

// start starts the broker, or starts it again with its data and its address.
func (k *kafkaPeer) start() error {
	said, err := peertest.Script(k.env, "kafka", "start")
	k.addr = said["GPUWHISK_TEST_KAFKA"]
	return err
}

func (k *kafkaPeer) stop() error {
	_, err := peertest.Script(k.env, "kafka", "stop")
	return err
}

func realKafka(t testing.TB) *kafkaPeer {
	t.Helper()
	if os.Getenv("GPUWHISK_TEST_KAFKA") == "" {
		missing(t, "no Apache Kafka: GPUWHISK_TEST_KAFKA is not set (.ci/peers/kafka.sh start)")
	}
	k, err := kafkaOnce()
	if err != nil {
		t.Fatalf("start a Kafka of our own: %v", err)
	}
	return k
}

// realCouch is a database given with its user and password, or else a server
// of the same API that these tests start.
func realCouch(t testing.TB) string {
	t.Helper()
	address := os.Getenv("GPUWHISK_TEST_COUCHDB")
	if address == "" {
		missing(t, "no CouchDB API: GPUWHISK_TEST_COUCHDB is not set (.ci/peers/pouchdb.sh start)")
	}
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return address
	}
	address, err := pouchOnce()
	if err != nil {
		t.Fatalf("start a pouchdb-server of our own: %v", err)
	}
	return address
}

var pouchOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gpuwhisk-e2e-pouchdb-")
	if err != nil {
		return "", err
	}
	env := []string{"GPUWHISK_POUCHDB_DIR=" + dir}
	atExit(func() error {
		_, err := peertest.Script(env, "pouchdb", "stop")
		return err
	})
	said, err := peertest.Script(env, "pouchdb", "start")
	if err != nil {
		return "", err
	}
	address := said["GPUWHISK_TEST_COUCHDB"]
	admin, err := http.NewRequest(http.MethodPut, address+"/_config/admins/e2e", strings.NewReader(`"not secret"`))
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(admin)
	if err != nil {
		return "", err
	}
	_ = res.Body.Close()
	return strings.Replace(address, "//", "//e2e:not%20secret@", 1), nil
})

func realDocker(t testing.TB) string {
	t.Helper()
	host := os.Getenv("DOCKER_HOST")
	if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		missing(t, "no Docker daemon answers (DOCKER_HOST or the default socket): "+strings.TrimSpace(string(out)))
	}
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	return host
}

var imagesOnce = sync.OnceValues(func() (string, error) {
	if tag := os.Getenv("GPUWHISK_TEST_IMAGES_TAG"); tag != "" {
		return tag, nil
	}
	said, err := peertest.Script(nil, "images", "start")
	return said["GPUWHISK_TEST_IMAGES_TAG"], err
})

// realImages builds the images of the action proxies, once per state of their
// sources; they stay for the next time.
func realImages(t testing.TB) string {
	t.Helper()
	tag, err := imagesOnce()
	if err != nil {
		t.Fatalf("build the action images: %v", err)
	}
	return tag
}

// docker runs the docker command.
func docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
