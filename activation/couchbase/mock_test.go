package couchbase

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

const (
	mockBucket = "whisk" // also the user
	mockPass   = "some_passw0rd"
)

// mock is a CouchbaseMock of one node, which ends with the test.
type mock struct {
	t    testing.TB
	web  string // where it takes commands
	data string // address of the node's data
}

// startMock runs a mock from the directory that GPUWHISK_TEST_COUCHBASE names.
func startMock(t testing.TB) *mock {
	t.Helper()
	jars := os.Getenv("GPUWHISK_TEST_COUCHBASE")
	java, err := exec.LookPath("java")
	if jars == "" || err != nil {
		peertest.Missing(t, "no CouchbaseMock: .ci/peers/couchbase.sh start installs it, and needs java")
	}
	// the mock sends its port here, and ends when the connection does.
	monitor, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	var out bytes.Buffer
	cmd := exec.Command(java, "-Xmx128m", "-cp", filepath.Join(jars, "*"), "com.couchbase.mock.CouchbaseMock",
		"-h", "127.0.0.1", "-p", "0", "-n", "1", "-R", "0", "-v", "64", "--cccp",
		"-b", mockBucket+":"+mockPass+":couchbase", "--harakiri-monitor", monitor.Addr().String())
	cmd.Stdout, cmd.Stderr = &out, &out
	check.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait(); _ = monitor.Close() })
	_ = monitor.(*net.TCPListener).SetDeadline(time.Now().Add(2 * time.Minute))
	conn, err := monitor.Accept()
	check.NoError(t, err, "CouchbaseMock does not start")
	t.Cleanup(func() { _ = conn.Close() })
	port, err := bufio.NewReader(conn).ReadString(0)
	check.NoError(t, err, "CouchbaseMock does not send its port")
	m := &mock{t: t, web: "http://127.0.0.1:" + strings.TrimSuffix(port, "\x00")}
	var ports []int
	m.command("get_mcports", url.Values{}, &ports)
	m.data = fmt.Sprintf("127.0.0.1:%d", ports[0])
	return m
}

// command gives the mock an order.
func (m *mock) command(name string, args url.Values, into any) {
	m.t.Helper()
	args.Set("bucket", mockBucket)
	res, err := http.Get(m.web + "/mock/" + name + "?" + args.Encode())
	check.NoError(m.t, err)
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	var answer struct {
		Status  string
		Payload json.RawMessage
	}
	check.NoError(m.t, json.Unmarshal(body, &answer), "mock answers %s to %s", body, name)
	check.Equal(check.Must(m.t), answer.Status, "ok", "mock answers %s to %s", body, name)
	if into != nil {
		check.NoError(m.t, json.Unmarshal(answer.Payload, into))
	}
}

// fail makes the next count operations fail with a status of the protocol; -1 means all
// operations.
func (m *mock) fail(status, count int) {
	m.t.Helper()
	m.command("opfail", url.Values{"code": {fmt.Sprint(status)}, "count": {fmt.Sprint(count)}, "servers": {"[0]"}}, nil)
}

// Statuses of the protocol.
const (
	success   = 0x00
	tooBig    = 0x03
	invalid   = 0x04
	mayNot    = 0x24
	temporary = 0x86
)

func (m *mock) config() Config {
	return Config{Connection: "couchbase://" + m.data, Username: mockBucket, Password: mockPass, Bucket: mockBucket}
}

// read returns a document of the bucket, and whether it exists, by a client of the test.
func (m *mock) read(id string) (string, bool) {
	m.t.Helper()
	cluster, err := gocb.Connect("couchbase://"+m.data, gocb.ClusterOptions{
		Authenticator: gocb.PasswordAuthenticator{Username: mockBucket, Password: mockPass},
	})
	check.NoError(m.t, err)
	defer func() { _ = cluster.Close(nil) }()
	found, err := cluster.Bucket(mockBucket).DefaultCollection().Get(id, &gocb.GetOptions{
		Transcoder: gocb.NewRawJSONTranscoder(), Timeout: time.Minute,
	})
	if err != nil {
		return "", false
	}
	var body []byte
	check.NoError(m.t, found.Content(&body))
	return string(body), true
}
