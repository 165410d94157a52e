// Package replay holds tests alone: it sends a whole invoker the messages
// that were captured from a running OpenWhisk, lets the actions run for real,
// and compares what comes out with what the original gave. Differences are
// failures unless docs/divergence.md lists them with a reason. The same fixture
// (an embedded broker and store, an invoker between them) serves the tests of
// what an invoker guarantees when it is stopped, killed, or loses a peer.
//
// There is no code here for others to use.
package replay
