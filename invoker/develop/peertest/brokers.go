package peertest

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kafkaStart limits the start of a Kafka. It is long because the machine may be busy.
const kafkaStart = 10 * time.Minute

// Kafka is an Apache Kafka that belongs to one test, which may stop or kill it.
type Kafka struct {
	Addr string // host:port, kept over restarts
	dir  string
	env  []string
}

// NewKafka starts a broker with further settings, lines of server.properties.
func NewKafka(settings ...string) (*Kafka, error) {
	dir, err := os.MkdirTemp("", "gpuwhisk-kafka-")
	if err != nil {
		return nil, err
	}
	k := &Kafka{dir: dir, env: []string{
		"GPUWHISK_KAFKA_DIR=" + dir, "GPUWHISK_KEEP=1", "GPUWHISK_KAFKA_BRIEF=1", "GPUWHISK_KAFKA_MORE=" + strings.Join(settings, "\n"),
		fmt.Sprintf("GPUWHISK_KAFKA_START_LIMIT=%d", int(kafkaStart.Seconds())),
	}}
	if err := k.Start(); err != nil {
		_ = k.Close()
		return nil, err
	}
	return k, nil
}

// Start starts the broker, or starts it again with its data and its address.
func (k *Kafka) Start() (err error) {
	for range 3 { // on a busy machine a Kafka sometimes gives up its own start
		var output map[string]string
		if output, err = scriptWithin(2*kafkaStart, k.env, "kafka", "start"); err == nil {
			k.Addr = output["GPUWHISK_TEST_KAFKA"]
			return nil
		}
	}
	return err
}

// Stop stops the broker and keeps its data.
func (k *Kafka) Stop() error {
	_, err := Script(k.env, "kafka", "stop")
	return err
}

// Kill ends the broker as a loss of its machine does.
func (k *Kafka) Kill() error {
	if err := signal(k.dir, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill Kafka: %w", err)
	}
	return k.Stop() // waits until the process has ended
}

// Close stops the broker and removes its data.
func (k *Kafka) Close() error {
	_, err := Script(k.env[:1], "kafka", "stop")
	_ = os.RemoveAll(k.dir)
	return err
}

// NewPouchDB starts a server of the CouchDB API with one user. Its address is
// without user and password.
func NewPouchDB(user, password string) (address string, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "gpuwhisk-pouchdb-")
	if err != nil {
		return "", nil, err
	}
	env := []string{"GPUWHISK_POUCHDB_DIR=" + dir}
	stop = func() error {
		_, err := Script(env, "pouchdb", "stop")
		return err
	}
	output, err := Script(env, "pouchdb", "start")
	if err == nil {
		address = output["GPUWHISK_TEST_COUCHDB"]
		err = addAdmin(address, user, password)
	}
	if err != nil {
		_ = stop()
		return "", nil, err
	}
	return address, stop, nil
}

// PouchDBProgram finds pouchdb-server below GPUWHISK_TEST_POUCHDB, the directory that
// npm installed it into, or in PATH.
func PouchDBProgram() (string, error) {
	name := "pouchdb-server"
	if dir := os.Getenv("GPUWHISK_TEST_POUCHDB"); dir != "" {
		name = filepath.Join(dir, "node_modules", ".bin", name)
	}
	return exec.LookPath(name)
}

// StartPouchDB starts a server of the CouchDB API with one user, on a port that
// OnFreePort finds. The server keeps its data in memory and ends with the test.
func StartPouchDB(t testing.TB, first int, user, password string) (address string) {
	t.Helper()
	program, err := PouchDBProgram()
	if err != nil {
		Missing(t, "no pouchdb-server: GPUWHISK_TEST_POUCHDB=DIR is not set (.ci/peers/pouchdb.sh start)")
	}
	port := FreePort(t, first)
	cmd := exec.Command(program, "--in-memory", "--host", "127.0.0.1", "-p", strconv.Itoa(port))
	cmd.Dir = t.TempDir()
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address = fmt.Sprint("http://127.0.0.1:", port)
	Until(t, "pouchdb-server answers", func() string {
		if err := addAdmin(address, user, password); err != nil {
			return err.Error()
		}
		return ""
	})
	return address
}

func addAdmin(address, user, password string) error {
	put, err := http.NewRequest(http.MethodPut, address+"/_config/admins/"+url.PathEscape(user), strings.NewReader(strconv.Quote(password)))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(put)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("make a user: %s", res.Status)
	}
	return nil
}
