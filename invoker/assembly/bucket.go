package assembly

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/invoker/stores"
)

// openBucket opens the bucket where code is kept in S3. It does not wait for it:
// actions whose code is in the database need none.
func (a *assembly) openBucket(context.Context) (err error) {
	a.bucket, err = stores.Bucket(a.c)
	return err
}

func (a *assembly) closeBucket(context.Context) error {
	if a.bucket != nil {
		a.bucket.Close()
	}
	return nil
}
