//go:build race

package sim

// raced shortens what simulates for long: one simulation is one goroutine, so
// the race detector has nothing to find in it and makes it ten times slower.
// .ci/test runs these tests without it as well.
const raced = true
