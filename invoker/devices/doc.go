// Package devices is the GPU side of a host as the invoker needs it: which
// devices there are (found by NVML, or none), what a container needs to run on
// one (the device itself, the shim, its socket), the shims' talk as the
// invoker's Mover, and news of devices that are full, busy or lost.
//
// It decides nothing about memory or turns: gpu and sched do. What a container
// says is bounded by gpu/shimctl; what cannot be heard (a static program, an
// image without glibc, a container that wants no shim) is taken to hold what
// was reserved for it, or what NVML sees of it, and never to give it back
// before its end.
//
// Goroutines are those of the shimctl.Control and the nvml.Watcher that it
// opens; Close ends them.
package devices
