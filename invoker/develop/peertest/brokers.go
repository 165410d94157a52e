package peertest

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kafkaStart is how long a Kafka may take to start on a machine that has much
// else to do.
const kafkaStart = 10 * time.Minute

// Kafka is an Apache Kafka of a test's own, which may be stopped or killed.
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
	for range 3 { // a Kafka whose parts did not meet in time ends by itself
		var output map[string]string
		if output, err = ScriptWithin(2*kafkaStart, k.env, "kafka", "start"); err == nil {
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
	text, err := os.ReadFile(filepath.Join(k.dir, "pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill Kafka: %w", err)
	}
	return k.Stop() // waits for its end
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
	return res.Body.Close()
}
