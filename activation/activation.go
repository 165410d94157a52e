// Package activation holds the types that GPU Whisk shares with an Apache
// OpenWhisk controller and its database: activation messages, acks, pings,
// user events, actions, runtimes manifests and activation records, each with
// its JSON as OpenWhisk writes it.
//
// The package is pure. It reads no clock, opens nothing, starts no goroutine
// and keeps no state. It moves no message: packages below it do (kafka, couchdb,
// journal), and the invoker decides what becomes of an activation.
//
// Values that belong to users (parameters, results, annotations) stay raw JSON
// from end to end: a number is text here and never a float64.
package activation
