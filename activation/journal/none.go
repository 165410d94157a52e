package journal

import "github.com/gpuwhisk/gpuwhisk/activation"

// None keeps nothing. With it a crash has every activation run again that was
// not completed, and nothing can be parked.
type None struct{}

// Started does nothing.
func (None) Started(activation.ID) {}

// Completed does nothing.
func (None) Completed(activation.ID) {}
