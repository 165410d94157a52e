//go:build race

package e2e

import "github.com/sasha-s/go-deadlock"

// Under the race detector go-cni replaces its locks with those of go-deadlock, which end
// the process because go-cni takes a read lock twice in one goroutine.
func init() { deadlock.Opts.Disable = true }
