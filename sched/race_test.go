//go:build race

package sched

// raced shortens the histories: one goroutine owns a Policy, so the race
// detector has nothing to find in them and makes them ten times slower.
// .ci/test runs them without it as well.
const raced = true
