package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestCodeInS3: an action whose code a controller keeps in S3 runs, and one whose
// code is gone from there is answered.
func TestCodeInS3(t *testing.T) {
	address := peertest.StartS3(t, "whisk-code")
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
	check.NoError(t, err)
	_, err = client.PutObject(t.Context(), "whisk-code", "dev/whiskentity/guest/far/9f1c7f0e-8d0a-4f7e-9c39-0a3c4c1f6a11",
		strings.NewReader(nodeHello), int64(len(nodeHello)), minio.PutObjectOptions{DisableContentSha256: true})
	check.NoError(t, err)
	for name, key := range map[string]string{"far": "9f1c7f0e-8d0a-4f7e-9c39-0a3c4c1f6a11", "gone": "00000000-8d0a-4f7e-9c39-0a3c4c1f6a11"} {
		doc := fmt.Sprintf(`{"annotations":[],"entityType":"action","exec":{"kind":"nodejs:20","binary":false,`+
			`"code":{"attachmentName":"s3:%s","attachmentType":"text/plain; charset=UTF-8"}},`+
			`"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},"name":%q,"namespace":"guest","parameters":[],`+
			`"publish":false,"updated":1,"version":"0.0.1"}`, key, name)
		p.db.Store(t, p.db.Names().Whisks, "guest/"+name, []byte(doc))
	}
	p.greets("far")
	p.call("gone", nil).want(t, activation.StatusApplicationError, "may have been deleted")
}
