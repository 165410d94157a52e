// Package spans is how an adapter reports that something begins for an activation,
// and how it ended: a request to the database, a pull of an image. A Listener makes
// metrics and log lines of it, under the names that OpenWhisk has for the same. It
// starts no goroutine.
package spans

import (
	"context"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Span is what begins.
type Span struct {
	Token string // component and action, such as database_getDocument
	Class string // of OpenWhisk that logs the same
	Text  string // what OpenWhisk logs when it begins
	// System is the transaction of work for no activation, such as sid_dbBatcher.
	System string
	// Documents is how many a batch has, 0 for what is no batch.
	Documents int
}

// Listener receives spans. It is safe for use by many goroutines.
type Listener interface {
	// Begins reports a span in a transaction, and returns what to call once at its
	// end, with a text for the log.
	Begins(t activation.TransID, s Span) (ended func(text string, err error))
}

type key struct{}

// With gives the context of work for an activation.
func With(ctx context.Context, t activation.TransID) context.Context {
	return context.WithValue(ctx, key{}, t)
}

// Carry gives a context that ends with ctx and works for the activation of from.
func Carry(ctx, from context.Context) context.Context {
	if t, ok := from.Value(key{}).(activation.TransID); ok {
		return With(ctx, t)
	}
	return ctx
}

// Begin reports a span of the context's activation to a listener, which may be nil.
func Begin(ctx context.Context, l Listener, s Span) (ended func(text string, err error)) {
	if l == nil {
		return func(string, error) {}
	}
	t, ok := ctx.Value(key{}).(activation.TransID)
	if !ok {
		t = activation.NewTransID(s.System, time.Now().UnixMilli(), false)
	}
	return l.Begins(t, s)
}
