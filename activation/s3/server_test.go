package s3

import (
	"bytes"
	"context"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

const (
	bucket = "whisk-code"
	access = "S3RVER" // the server's access key
	secret = "S3RVER"
)

// startServer starts a server with one bucket, which ends with the test.
func startServer(t testing.TB) Config {
	t.Helper()
	return Config{Bucket: bucket, Endpoint: "http://" + peertest.StartS3(t, bucket), Region: "us-east-1", PathStyle: true, AccessKey: access, SecretKey: secret}
}

// keep puts an object into the bucket, as a controller does.
func keep(t testing.TB, s *Store, key string, data []byte) {
	t.Helper()
	_, err := s.client.PutObject(context.Background(), s.bucket, key, bytes.NewReader(data), int64(len(data)),
		minio.PutObjectOptions{DisableContentSha256: true}) // the server cannot read a body that is signed in chunks
	check.NoError(t, err)
}
