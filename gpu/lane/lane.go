// Package lane takes every decision about work on GPUs: which item runs next
// and where, in which container, whose memory is on a device and whose is
// moved, which container is given up, who waits and who is refused. The invoker
// and the simulator drive the same lane.
//
// It is pure. Events go in with the time attached (Take); orders come out
// (Ready); Deadline says when a Tick would change something. One history of
// events always gives the same orders, byte for byte: there is no clock, no
// goroutine, no chance, and no decision from map order. Whoever owns a lane
// calls it from one goroutine at a time.
//
// Inside it keeps a flow book and the boxes, and asks sched.Policy for the next
// grant, gpu.Pool for a container of a device, gpu.Ledger for its memory,
// gpu.Tokens for its D. It does not know activations, CUDA or Docker: a Box is
// the number of a container, an item the caller's number of an activation.
package lane
