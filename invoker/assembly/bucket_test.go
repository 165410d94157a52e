package assembly

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
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
	a := &assembly{c: c, Options: Options{Log: quiet}}
	h, err := a.openBucket(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.close(t.Context()) }()
	reasons := func() string {
		var s status
		h.status(&s)
		return strings.Join(s.Reasons, "; ")
	}
	if why := reasons(); !strings.Contains(why, "reading code from S3: ") || !strings.Contains(why, "(whisk.s3.pekko-connectors.aws.credentials)") ||
		strings.Contains(why, c.S3.SecretKey) {
		t.Errorf("reasons %s", why)
	}
	in.Store(true)
	if code, found, err := a.bucket.Read(t.Context(), "guest/hello", "x"); string(code) != "code" || !found || err != nil {
		t.Errorf("read %q, %t, %v", code, found, err)
	}
	if why := reasons(); strings.Contains(why, "S3") {
		t.Errorf("after a read: reasons %s", why)
	}
	none := &assembly{c: config.Default()}
	if h, err := none.openBucket(t.Context()); err != nil || h.status != nil || none.bucket != nil {
		t.Errorf("without a bucket: %v, %v, a status %t", err, none.bucket, h.status != nil)
	}
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
	a := &assembly{c: c, Options: Options{Log: quiet}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var h hooks
	go func() {
		var err error
		h, err = a.openRecordStore(ctx)
		ended <- err
	}()
	<-asked
	<-asked // the first answer is in the stage
	if message := a.waiting(); !strings.Contains(message, "elasticsearch: ") || !strings.Contains(message, "whisk.activation-store.elasticsearch.password") ||
		strings.Contains(message, c.Elasticsearch.Password) {
		t.Errorf("it waits for %q", message)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it is open")
	}
	if err := h.close(t.Context()); err != nil {
		t.Error(err)
	}
}
