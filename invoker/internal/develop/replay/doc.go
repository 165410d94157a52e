// Package replay holds tests alone: it sends a whole invoker the messages
// that were captured from a running OpenWhisk, lets the actions run for real,
// and compares what comes out with what the original gave. Differences are
// failures unless docs/divergence.md lists them with a reason. The same deployments
// (package harness) serve the tests of an invoker that is stopped, killed, or loses a
// peer: TestKills is their table, and TestChaos draws the moments at random.
//
// Other packages do not import this one.
package replay
