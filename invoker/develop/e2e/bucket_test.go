package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestCodeInS3: an action whose code a controller keeps in S3 runs, and one whose
// code is gone from there is answered.
func TestCodeInS3(t *testing.T) {
	address := s3Server(t)
	p := start(t, ownParts(t), setup{env: map[string]string{
		"CONFIG_whisk_spi_AttachmentStoreProvider":                        "org.apache.openwhisk.core.database.s3.S3AttachmentStoreProvider",
		"CONFIG_whisk_s3_bucket":                                          "whisk-code",
		"CONFIG_whisk_s3_prefix":                                          "dev",
		"CONFIG_whisk_s3_pekkoConnectors_endpointUrl":                     "http://" + address,
		"CONFIG_whisk_s3_pekkoConnectors_aws_credentials_provider":        "static",
		"CONFIG_whisk_s3_pekkoConnectors_aws_credentials_accessKeyId":     "S3RVER",
		"CONFIG_whisk_s3_pekkoConnectors_aws_credentials_secretAccessKey": "S3RVER",
	}})
	client, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4("S3RVER", "S3RVER", ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.PutObject(t.Context(), "whisk-code", "dev/whiskentity/guest/far/9f1c7f0e-8d0a-4f7e-9c39-0a3c4c1f6a11",
		strings.NewReader(nodeHello), int64(len(nodeHello)), minio.PutObjectOptions{DisableContentSha256: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{"far": "9f1c7f0e-8d0a-4f7e-9c39-0a3c4c1f6a11", "gone": "00000000-8d0a-4f7e-9c39-0a3c4c1f6a11"} {
		doc := fmt.Sprintf(`{"annotations":[],"entityType":"action","exec":{"kind":"nodejs:20","binary":false,`+
			`"code":{"attachmentName":"s3:%s","attachmentType":"text/plain; charset=UTF-8"}},`+
			`"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":%q,"namespace":"guest","parameters":[],`+
			`"publish":false,"updated":1,"version":"0.0.1"}`, key, name)
		if _, err := p.db.Put(t.Context(), p.db.Names().Whisks, "guest/"+name, []byte(doc)); err != nil {
			t.Fatal(err)
		}
	}
	p.call("far", map[string]any{"name": "Ada"}).want(t, activation.StatusSuccess, "hi Ada")
	p.call("gone", nil).want(t, activation.StatusApplicationError, "may have been deleted")
}

// s3Server runs s3rver with a bucket, as long as the test runs.
func s3Server(t *testing.T) (address string) {
	t.Helper()
	tree := os.Getenv("GPUWHISK_TEST_S3")
	if tree == "" {
		peertest.Missing(t, "no s3rver: .ci/peers/s3.sh start installs it")
	}
	cmd := exec.Command("node", filepath.Join(tree, "node_modules/s3rver/bin/s3rver.js"),
		"-d", t.TempDir(), "-a", "127.0.0.1", "-p", "0", "-s", "--configure-bucket", "whisk-code")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, address, _ = strings.Cut(lines.Text(), "listening on "); address != "" {
			return address
		}
	}
	t.Fatal("s3rver does not start")
	return ""
}
