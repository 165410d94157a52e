package peertest

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// StartS3 starts s3rver, a server of S3's API that checks access keys (S3RVER and
// S3RVER), with one bucket. It ends with the test.
func StartS3(t testing.TB, bucket string) (address string) {
	t.Helper()
	tree := Variable(t, "GPUWHISK_TEST_S3", "s3.sh")
	cmd := exec.Command(Tool(t, "node"), filepath.Join(tree, "node_modules/s3rver/bin/s3rver.js"),
		"-d", t.TempDir(), "-a", "127.0.0.1", "-p", "0", "--configure-bucket", bucket)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Start(cmd); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "listening on ")
	}
	if !late.Stop() || address == "" {
		_ = cmd.Wait()
		t.Fatalf("s3rver does not start: %s", &stderr)
	}
	read := make(chan struct{})
	go func() { // the server logs each request to its output
		defer close(read)
		for lines.Scan() {
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return address
}
