package s3

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

const (
	bucket = "whisk-code"
	access = "S3RVER" // the server's access key
	secret = "S3RVER"
)

// startServer runs s3rver, which checks access keys, with one bucket. It ends with
// the test.
func startServer(t testing.TB) Config {
	t.Helper()
	tree := os.Getenv("GPUWHISK_TEST_S3")
	node, err := exec.LookPath("node")
	if tree == "" || err != nil {
		peertest.Missing(t, "no s3rver: .ci/peers/s3.sh start installs it, and needs node")
	}
	cmd := exec.Command(node, filepath.Join(tree, "node_modules/s3rver/bin/s3rver.js"),
		"-d", t.TempDir(), "-a", "127.0.0.1", "-p", "0", "--configure-bucket", bucket)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	address := ""
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "listening on ")
	}
	if !late.Stop() || address == "" {
		t.Fatalf("s3rver does not start: %s", stderr.String())
	}
	read := make(chan struct{})
	go func() { // it logs each request there
		defer close(read)
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return Config{Bucket: bucket, Endpoint: "http://" + address, Region: "us-east-1", PathStyle: true, AccessKey: access, SecretKey: secret}
}

// keep puts an object into the bucket, as a controller does.
func keep(t testing.TB, s *Store, key string, data []byte) {
	t.Helper()
	_, err := s.client.PutObject(context.Background(), s.bucket, key, bytes.NewReader(data), int64(len(data)),
		minio.PutObjectOptions{DisableContentSha256: true}) // the server cannot read a body that is signed in chunks
	if err != nil {
		t.Fatal(err)
	}
}
