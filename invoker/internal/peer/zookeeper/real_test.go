package zookeeper

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// realZooKeeper returns the address of a server without invokers: the server in
// GPUWHISK_TEST_ZOOKEEPER, or a server that the test starts.
func realZooKeeper(t *testing.T) string {
	t.Helper()
	if at := os.Getenv("GPUWHISK_TEST_ZOOKEEPER"); at != "" {
		return at
	}
	at := freeAddress(t)
	startServer(t, at)
	return at
}

func freeAddress(t *testing.T) string {
	t.Helper()
	// Below the range that Linux gives to clients: any other connection
	// could have the port before the server listens. Packages are tested at
	// once: each has a thousand ports of its own.
	for range 1000 {
		at := fmt.Sprintf("127.0.0.1:%d", 14000+rand.IntN(1000))
		if l, err := net.Listen("tcp", at); err == nil {
			_ = l.Close()
			return at
		}
	}
	t.Fatal("no free port")
	return ""
}

// startServer runs a ZooKeeper of the Debian package until the test ends.
func startServer(t *testing.T, at string) {
	t.Helper()
	java, err := exec.LookPath("java")
	jars := serverJars()
	if err != nil || len(jars) == 0 {
		if os.Getenv("GPUWHISK_TEST_ZOOKEEPER") != "" {
			t.Skip("this test starts a ZooKeeper of its own: name its jars' directory in GPUWHISK_ZOOKEEPER_JARS, or install the package zookeeper")
		}
		peertest.Missing(t, "no ZooKeeper: set GPUWHISK_TEST_ZOOKEEPER=host:port, or install java and the package zookeeper")
	}
	host, port, _ := net.SplitHostPort(at)
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=%s\nadmin.enableServer=false\ntickTime=500\n", dir, port, host)
	check.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	var out bytes.Buffer
	cmd := exec.Command(java, "-Xmx128m", "-Dznode.container.checkIntervalMs=100", "-cp", strings.Join(jars, ":"), "org.apache.zookeeper.server.ZooKeeperServerMain", file)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	check.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("zookeeper printed:\n%s", out.String())
		}
	})
}

// serverJars are those of GPUWHISK_ZOOKEEPER_JARS, or of the Debian package,
// whose one jar names its dependencies itself.
func serverJars() []string {
	if dir := os.Getenv("GPUWHISK_ZOOKEEPER_JARS"); dir != "" {
		jars, _ := filepath.Glob(filepath.Join(dir, "*.jar"))
		return jars
	}
	const packaged = "/usr/share/java/zookeeper.jar"
	if _, err := os.Stat(packaged); err != nil {
		return nil
	}
	return []string{packaged}
}

// raw is a session of the test's own.
func raw(t *testing.T, at string) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{at}, sessionTimeout, zk.WithLogger(silent{}), zk.WithLogInfo(false), zk.WithDialer(dial))
	check.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// clean skips the test if the server has numbers of invokers, because the server is
// then in use. At the end of the test it removes the test's nodes.
func clean(t *testing.T, at string, conn *zk.Conn) {
	t.Helper()
	deadline, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		found, _, err := conn.Exists("/invokers")
		if err == nil && found {
			peertest.Missing(t, fmt.Sprintf("ZooKeeper at %s is in use: it has /invokers", at))
		}
		if err == nil {
			break
		}
		if deadline.Err() != nil {
			t.Fatalf("zookeeper at %s: %v", at, err)
		}
	}
	t.Cleanup(func() { removeAll(conn, "/invokers") })
}

func removeAll(conn *zk.Conn, node string) {
	names, _, _ := conn.Children(node)
	for _, name := range names {
		removeAll(conn, path.Join(node, name))
	}
	conn.Delete(node, -1)
}

func assigned(t *testing.T, at, name string, overwrite *int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id, err := Assign(ctx, Request{Hosts: at, Name: name, Overwrite: overwrite})
	if err != nil {
		t.Fatalf("assign %s: %v", name, err)
	}
	return id
}

func TestRealZooKeeper(t *testing.T) {
	at := realZooKeeper(t)
	conn := raw(t, at)
	clean(t, at, conn)
	for _, tt := range []struct {
		name      string
		overwrite *int
		want      int
	}{
		{"foo", nil, 0}, {"bar", ptr(0), 0}, {"foo", nil, 1}, {"cat", nil, 2}, {"bar", nil, 0}, {"cat", nil, 2},
	} {
		check.Equal(t, assigned(t, at, tt.name, tt.overwrite), tt.want, "%s", tt.name)
	}
	for node, want := range map[string][]byte{
		counterPath: {0, 0, 0, 3}, mappingPath + "/bar": {0}, mappingPath + "/foo": {1}, mappingPath + "/cat": {2},
	} {
		data, stat, err := conn.Get(node)
		check.NoError(t, err, "%s", node)
		check.EqualSlices(t, data, want, "%s", node)
		check.Equal(t, stat.EphemeralOwner, 0, "%s", node)
	}
	_, err := Assign(t.Context(), Request{Hosts: at, Name: "dog", Overwrite: ptr(9)})
	check.ErrorContains(t, err, "would leave a gap", "overwrite 9")
}

// The server removes an empty container node; to clients it looks like any
// other.
func TestRealZooKeeperParentsAreContainers(t *testing.T) {
	at := freeAddress(t)
	startServer(t, at)
	conn := raw(t, at)
	clean(t, at, conn)
	assigned(t, at, "foo", nil)
	removeAll(conn, mappingPath+"/foo")
	removeAll(conn, counterPath)
	for {
		found, _, changed, err := conn.ExistsW("/invokers")
		check.NoError(t, err)
		if !found {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Fatal("/invokers stays although it is empty")
		}
	}
}

func TestRealZooKeeperConcurrently(t *testing.T) {
	at := realZooKeeper(t)
	clean(t, at, raw(t, at))
	ids := make([]int, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			id, err := Assign(t.Context(), Request{Hosts: at, Name: fmt.Sprint("invoker-", i)})
			if ids[i] = id; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(ids)
	check.EqualSlices(t, ids, []int{0, 1, 2, 3, 4, 5, 6, 7})
}

// onceHandler is a log handler that closes a channel at its first record.
type onceHandler struct {
	slog.Handler
	first chan struct{}
	once  *sync.Once
}

func (h onceHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h onceHandler) Handle(context.Context, slog.Record) error {
	h.once.Do(func() { close(h.first) })
	return nil
}

// The server starts only after Assign has found no server.
func TestRealZooKeeperComesLate(t *testing.T) {
	at := freeAddress(t)
	h := onceHandler{slog.DiscardHandler, make(chan struct{}), new(sync.Once)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := Assign(ctx, Request{Hosts: at, Name: "a", Log: slog.New(h)})
		done <- err
	}()
	stopped := true
	defer func() {
		if stopped { // the server could not be started: do not leave Assign behind
			cancel()
			check.ErrorIs(t, <-done, context.Canceled)
		}
	}()
	<-h.first
	startServer(t, at)
	stopped = false
	check.NoError(t, <-done)
}
