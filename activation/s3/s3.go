// Package s3 reads the code of actions that OpenWhisk's controllers keep in S3
// (OpenWhisk: S3AttachmentStore). It writes nothing. It is the only package that
// imports the S3 client.
package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Config is where the bucket is.
type Config struct {
	Bucket string
	Prefix string // folder in the bucket, may be empty
	// Endpoint is a URL without a path; empty means AWS.
	Endpoint string
	Region   string // empty: the server names it
	// PathStyle names the bucket in the path and not in the host.
	PathStyle bool
	// Anonymous sends requests without credentials. If neither Anonymous nor AccessKey is
	// set, the credentials come from the environment, ~/.aws/credentials or the machine's
	// role, as with AWS's own programs.
	Anonymous                   bool
	AccessKey, SecretKey, Token string
	// Certificate is a PEM file of the authorities that sign the server's
	// certificate; empty means the system's.
	Certificate string
}

// Store is a bucket. It is safe for use by many goroutines and owns none.
type Store struct {
	client *minio.Client
	pool   *http.Transport
	bucket string
	folder string
}

// folder is the folder below the prefix: the original's type of actions in lower case.
const folder = "whiskentity"

const amazon = "https://s3.amazonaws.com"

// Open prepares a store. It sends nothing to the server.
func Open(cfg Config) (*Store, error) {
	u, err := url.Parse(cmp.Or(cfg.Endpoint, amazon))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		u.Path != "" && u.Path != "/" || u.RawQuery != "" {
		return nil, errors.New("open S3: the endpoint is not http://host:port or https://host:port, without a path")
	}
	pool, err := transport(u.Scheme == "https", cfg.Certificate)
	if err != nil {
		return nil, fmt.Errorf("open S3: %w", err)
	}
	lookup := minio.BucketLookupDNS
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: login(cfg), Secure: u.Scheme == "https", Region: cfg.Region,
		BucketLookup: lookup, Transport: pool, MaxRetries: tries,
	})
	if err != nil {
		return nil, fmt.Errorf("open S3: %w", err)
	}
	s := &Store{client: client, pool: pool, bucket: cfg.Bucket, folder: folder}
	if cfg.Prefix != "" {
		s.folder = cfg.Prefix + "/" + folder
	}
	return s, nil
}

func transport(secure bool, certificate string) (*http.Transport, error) {
	t, err := minio.DefaultTransport(secure)
	if err != nil || certificate == "" || !secure {
		return t, err
	}
	pem, err := os.ReadFile(certificate)
	if err != nil {
		return nil, fmt.Errorf("read S3's certificates (whisk.gpu.s3.certificate): %w", err)
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read S3's certificates (whisk.gpu.s3.certificate): %s holds none in PEM form", certificate)
	}
	return t, nil
}

// tries is how often the library tries a request by itself.
const tries = 3

func login(cfg Config) *credentials.Credentials {
	switch {
	case cfg.Anonymous:
		return credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	case cfg.AccessKey != "":
		return credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, cfg.Token)
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{},
		&credentials.IAM{Client: &http.Client{Timeout: 10 * time.Second}},
	})
}

// Close closes idle connections.
func (s *Store) Close() { s.pool.CloseIdleConnections() }

// key is where the attachment of a document lies.
func (s *Store) key(document, name string) string { return s.folder + "/" + document + "/" + name }

// mostCode limits the size of an attachment. Controllers accept less: their limit
// (whisk.exec-size-limit) is 48 MB by default.
const mostCode = 256 << 20

// Read returns the attachment of a document, or that there is none.
func (s *Store) Read(ctx context.Context, document, name string) (data []byte, found bool, err error) {
	return s.read(ctx, s.key(document, name), mostCode)
}

func (s *Store) read(ctx context.Context, key string, most int64) ([]byte, bool, error) {
	object, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, false, fmt.Errorf("read %s of bucket %s: %w", key, s.bucket, err)
	}
	defer func() { _ = object.Close() }()
	data, err := io.ReadAll(io.LimitReader(object, most+1))
	switch {
	case missing(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("read %s of bucket %s: %w%s", key, s.bucket, err, settings(err))
	case int64(len(data)) > most:
		return nil, false, fmt.Errorf("read %s of bucket %s: it has more than %d MiB", key, s.bucket, most>>20)
	}
	return data, true, nil
}

func missing(err error) bool {
	return err != nil && minio.ToErrorResponse(err).Code == "NoSuchKey"
}

// settings names the keys that an operator checks after an error.
func settings(err error) string {
	var cert *tls.CertificateVerificationError
	var call *net.OpError
	switch code := minio.ToErrorResponse(err).Code; {
	case code == "InvalidAccessKeyId" || code == "SignatureDoesNotMatch" || code == "InvalidToken" || code == "ExpiredToken":
		return " (whisk.s3.pekko-connectors.aws.credentials)"
	case code == "NoSuchBucket":
		return " (whisk.s3.bucket)"
	case code == "AccessDenied":
		return " (whisk.s3.pekko-connectors.aws.credentials: without the right to list the bucket this is the answer for what is not there, too)"
	case errors.As(err, &cert):
		return " (whisk.gpu.s3.certificate)"
	case errors.As(err, &call):
		return " (whisk.s3.pekko-connectors.endpoint-url)"
	}
	return ""
}

// Denied reports whether the server refused for want of a right: after a probe that
// may mean only that this login may not list.
func Denied(err error) bool { return err != nil && minio.ToErrorResponse(err).Code == "AccessDenied" }

// probeKey is a key that is never used for an attachment.
const probeKey = "gpuwhisk-probe"

// Probe requests an object that is not there: the bucket exists, and this login
// may read it. A user who may read but not list gets "forbidden".
func (s *Store) Probe(ctx context.Context) error {
	_, _, err := s.read(ctx, s.folder+"/"+probeKey, 1<<20)
	return err
}
