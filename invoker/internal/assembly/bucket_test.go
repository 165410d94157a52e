package assembly

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// A bucket that refuses the login at the start does not hold it up: /status names
// the key, until a read succeeds.
func TestBucketThatRefuses(t *testing.T) {
	var in atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if in.Load() {
			w.Header().Set("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")
			_, _ = io.WriteString(w, "code")
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `<?xml version="1.0"?><Error><Code>SignatureDoesNotMatch</Code><Message>It does not match</Message></Error>`)
	}))
	t.Cleanup(server.Close)
	c := config.Default()
	c.S3 = config.S3{Enabled: true, Bucket: "code", Endpoint: server.URL, PathStyle: true, Region: "us-east-1",
		Credentials: "static", AccessKey: "a", SecretKey: "of a test"}
	db := &newAssembly(Options{Config: c, Log: quiet}).stores
	h, err := db.openBucket(t.Context())
	check.NoError(t, err)
	defer func() { _ = h.close(t.Context()) }()
	reasons := func() string {
		var s status
		h.status(&s)
		return strings.Join(s.Reasons, "; ")
	}
	why := reasons()
	check.Contains(t, why, "reading code from S3: ")
	check.Contains(t, why, "(whisk.s3.pekko-connectors.aws.credentials)")
	check.Lacks(t, why, c.S3.SecretKey)
	in.Store(true)
	code, found, err := db.bucket.Read(t.Context(), "guest/hello", "x")
	check.NoError(t, err)
	check.That(t, found)
	check.Equal(t, string(code), "code")
	check.Lacks(t, reasons(), "S3", "after a read")
	none := &newAssembly(Options{Config: config.Default()}).stores
	without, err := none.openBucket(t.Context())
	check.NoError(t, err, "without a bucket")
	check.That(t, without.status == nil, "without a bucket")
	check.That(t, none.bucket == nil, "without a bucket")
}

// A store of records that refuses the password at the start is waited for, and
// /ping and /status name the keys meanwhile.
func TestStoreThatRefusesIsNamed(t *testing.T) {
	asked := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	c := config.Default()
	c.Records.Store = config.StoreElasticsearch
	c.Elasticsearch = config.Elasticsearch{Protocol: "http", Hosts: []string{server.Listener.Addr().String()}, Index: "x-%s", Username: "u", Password: "of a test"}
	a := newAssembly(Options{Config: c, Log: quiet})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var h hooks
	go func() {
		var err error
		h, err = a.stores.openRecordStore(ctx)
		ended <- err
	}()
	<-asked
	<-asked // the first answer is in the stage
	message := a.waiting()
	check.Contains(t, message, "elasticsearch: ")
	check.Contains(t, message, "whisk.activation-store.elasticsearch.password")
	check.Lacks(t, message, c.Elasticsearch.Password)
	cancel()
	if err := <-ended; err == nil {
		t.Error("it is open")
	}
	if err := h.close(t.Context()); err != nil {
		t.Error(err)
	}
}
