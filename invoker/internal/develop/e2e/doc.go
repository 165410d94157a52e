// Package e2e holds tests alone: it uses a whole OpenWhisk, this invoker
// included, as a person would, through the client library of wsk, and then
// ill-treats it: with actions that misbehave, messages that cannot be read,
// containers that vanish and peers that go away or answer nonsense.
//
// Each test runs with parts of our own in one process (embedded broker and
// store, actions as processes), and again with real ones (Apache Kafka, a
// CouchDB-API server that is not ours, Docker) where there are such. At the
// end nothing may be left: no container, process, goroutine, open message
// or memory of the pool, and the committed offset has passed every message.
//
// There is no code here for others to use.
package e2e
