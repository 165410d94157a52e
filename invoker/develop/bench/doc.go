// Package bench holds benchmarks alone: it measures the invoker against its
// floor, which is the same two Kafka hops and the same two HTTP exchanges (the
// action's /run, the database's _bulk_docs) with nothing between them. Both run in
// one process, in turns, so that a noisy machine is equally noisy for both.
//
// There is no code here for others to use.
package bench
