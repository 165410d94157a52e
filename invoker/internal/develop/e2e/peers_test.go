package e2e

import (
	"net/url"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// parts are the parts of an installation. The zero value means our embedded parts.
type parts struct {
	kafka  string // host:port; empty: the embedded broker
	couch  string // URL with user and password; empty: the embedded store
	docker string // DOCKER_HOST; empty: actions as processes
	// containerd is the socket of the daemon that runs the actions; empty: Docker does.
	containerd string
	images     string // tag of the action images

	shared bool // another installation runs beside this one
}

func (w parts) real() bool { return w.docker != "" }

// withEachParts runs a test with our own parts and with real ones, both at once.
// A goroutine that is left may be of either, so they are counted when both have
// ended.
func withEachParts(t *testing.T, test func(t *testing.T, w parts)) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() { noGoroutines(t, before) })
	eachOf(t, test, map[string]func(testing.TB) parts{"embedded": ownParts, "real": realParts})
}

// eachOf runs a test with each of some parts, beside each other.
func eachOf(t *testing.T, test func(t *testing.T, w parts), sets map[string]func(testing.TB) parts) {
	for name, parts := range sets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := parts(t)
			w.shared = true
			test(t, w)
		})
	}
}

func ownParts(t testing.TB) parts {
	t.Helper()
	for _, program := range []string{"python3", "node"} {
		if _, err := exec.LookPath(program); err != nil {
			peertest.Missing(t, program+" is not on the PATH")
		}
	}
	return parts{}
}

func realParts(t testing.TB) parts {
	t.Helper()
	return withContainerd(t, parts{kafka: realKafka(t).Addr, couch: realCouch(t), docker: peertest.NeedDocker(t), images: realImages(t)})
}

// dockerParts are our own parts with actions in containers.
func dockerParts(t testing.TB) parts {
	t.Helper()
	return withContainerd(t, parts{docker: peertest.NeedDocker(t), images: realImages(t)})
}

// kafkaOnce is an Apache Kafka for these tests alone, because they use the topics of
// invoker 0 and stop the broker.
var kafkaOnce = sync.OnceValues(func() (*peertest.Kafka, error) {
	k, err := peertest.NewKafka()
	if err == nil {
		peertest.AtExit(k.Close)
	}
	return k, err
})

func realKafka(t testing.TB) *peertest.Kafka {
	t.Helper()
	peertest.Variable(t, "GPUWHISK_TEST_KAFKA", "kafka.sh")
	k, err := kafkaOnce()
	check.NoError(t, err, "start a Kafka of our own")
	return k
}

// realCouch is a database given with its user and password, or else a server
// of the same API that these tests start.
func realCouch(t testing.TB) string {
	t.Helper()
	address := peertest.Variable(t, "GPUWHISK_TEST_COUCHDB", "pouchdb.sh")
	if u, err := url.Parse(address); err == nil && u.User != nil {
		return address
	}
	address, err := pouchOnce()
	check.NoError(t, err, "start a pouchdb-server of our own")
	return address
}

var pouchOnce = sync.OnceValues(func() (string, error) {
	address, stop, err := peertest.NewPouchDB("e2e", "not secret")
	if err != nil {
		return "", err
	}
	peertest.AtExit(stop)
	return strings.Replace(address, "//", "//e2e:not%20secret@", 1), nil
})

// realImages are the images of the action proxies.
func realImages(t testing.TB) string {
	t.Helper()
	tag, err := peertest.Images()
	check.NoError(t, err, "build the action images")
	return tag
}
