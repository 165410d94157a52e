package journal

import (
	"context"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// None keeps nothing. With it a crash has every activation run again that was
// not completed, and nothing can be parked.
type None struct{}

// Begin does nothing.
func (None) Begin(context.Context, activation.ID) error { return nil }

// Completed does nothing.
func (None) Completed(activation.ID) {}

// Owe does nothing.
func (None) Owe(ids []activation.ID, _ [][]byte) []error { return make([]error, len(ids)) }
