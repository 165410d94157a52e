//go:build race

package sim

// raced shortens long simulations. A simulation is one goroutine, so the race detector has
// nothing to find and makes it ten times slower. .ci/test runs these tests also without the
// race detector.
const raced = true
