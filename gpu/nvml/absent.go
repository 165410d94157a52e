//go:build !cgo || !linux

package nvml

import (
	"context"
)

// Driver is NVIDIA's driver, which this build cannot reach.
type Driver struct{}

// Open answers ErrNotBuilt.
func Open(Options) (*Driver, error) { return nil, ErrNotBuilt }

// Close does nothing.
func (*Driver) Close() error { return nil }

// Versions answers that nothing is known.
func (*Driver) Versions() Versions { return Versions{} }

// Cards answers ErrNotBuilt.
func (*Driver) Cards() ([]Card, error) { return nil, ErrNotBuilt }

// LimitCgroup answers ErrNotBuilt.
func (*Driver) LimitCgroup(string, string, int64) error { return ErrNotBuilt }

// CgroupUse answers ErrNotBuilt.
func (*Driver) CgroupUse(string, string) (int64, error) { return 0, ErrNotBuilt }

// Watch answers ErrNotBuilt.
func (*Driver) Watch(WatchOptions) (*Watcher, error) { return nil, ErrNotBuilt }

// Watcher samples nothing in this build.
type Watcher struct{}

// Close does nothing.
func (*Watcher) Close(context.Context) error { return nil }
