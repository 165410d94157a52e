package assembly

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/s3"
	"github.com/gpuwhisk/gpuwhisk/invoker/stores"
)

// bucket is code in S3, which knows how its last read went.
type bucket struct {
	store   *s3.Store
	trouble atomic.Value // string
}

// Read implements couchdb.Bucket.
func (b *bucket) Read(ctx context.Context, document, name string) ([]byte, bool, error) {
	data, found, err := b.store.Read(ctx, document, name)
	if err == nil || ctx.Err() == nil {
		b.note(err)
	}
	return data, found, err
}

func (b *bucket) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	b.trouble.Store(text)
}

// why is what is wrong with the last read; empty where there is none.
func (b *bucket) why() string {
	if b == nil {
		return ""
	}
	why, _ := b.trouble.Load().(string)
	return why
}

// probeTime bounds the look at the bucket at the start.
const probeTime = 5 * time.Second

// openBucket opens the bucket where code is kept in S3, and looks whether it lets
// us in. It does not wait for it: actions whose code is in the database need none.
func (a *assembly) openBucket(ctx context.Context) error {
	store, err := stores.Bucket(a.c)
	if err != nil || store == nil {
		return err
	}
	a.bucket = &bucket{store: store}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := store.Probe(ctx); err != nil && !s3.Denied(err) {
		a.bucket.note(err)
		a.Log.Warn("code in S3 cannot be read", "error", err)
	}
	return nil
}

func (a *assembly) closeBucket(context.Context) error {
	if a.bucket != nil {
		a.bucket.store.Close()
	}
	return nil
}
