// Package activation holds the types that GPU Whisk shares with an Apache
// OpenWhisk controller and its database: activation messages, acks, pings,
// user events, actions, runtimes manifests and activation records, each with
// its JSON as OpenWhisk writes it.
//
// The package is pure: it has no clock, no I/O, no goroutines and no state. The
// packages below it (kafka, couchdb, journal) transport and store these types, and
// the invoker handles activations.
//
// Values that belong to users (parameters, results, annotations) stay raw JSON
// from end to end. A number stays text and never becomes a float64.
package activation

import "errors"

// ErrUnsent is the error of a message that still waited when its sender closed. Its activation
// is not done and is delivered again after a restart.
var ErrUnsent = errors.New("not sent before the end")
