//go:build !cgo || !linux

package nvml

import (
	"errors"
	"testing"
)

func TestWithoutCgo(t *testing.T) {
	if _, err := Open(Options{}); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("error %v", err)
	}
}
