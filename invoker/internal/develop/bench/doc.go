// Package bench contains only benchmarks. It compares the invoker with the least
// possible work, called the floor: the same two Kafka hops and the same two HTTP
// exchanges (the action's /run and the database's _bulk_docs) and nothing else. Both
// run in one process in turns, so that a noisy machine affects both equally.
//
// Other benchmarks measure the program among real parts: Apache Kafka, a
// pouchdb-server and Docker. They are skipped if the parts are missing.
package bench
