package journal

import (
	"context"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// None keeps nothing. With it a crash has every activation run again that was
// not completed, and nothing can be parked.
type None struct{}

// Past knows nothing.
func (None) Past(activation.ID) Past { return Past{} }

// Left is nothing.
func (None) Left() []Left { return nil }

// Accepted does nothing.
func (None) Accepted(activation.ID, int, int64) {}

// Parked refuses.
func (None) Parked(activation.ID, []byte) error {
	return fmt.Errorf("park message: %w: there is no journal", ErrFull)
}

// Message has none.
func (None) Message(id activation.ID) ([]byte, error) {
	return nil, fmt.Errorf("message of %s: %w", id, ErrNotParked)
}

// Started does nothing.
func (None) Started(activation.ID) {}

// Completed does nothing.
func (None) Completed(activation.ID) {}

// Covered does nothing.
func (None) Covered(int, func(int64) bool) {}

// Ready is always so.
func (None) Ready(context.Context) error { return nil }
