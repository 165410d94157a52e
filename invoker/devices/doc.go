// Package devices is the GPU side of a host as the invoker needs it: which
// devices there are (found by NVML, or none), what a container needs to run on
// one (the device itself, the shim, its socket), the shims' talk as the
// invoker's Mover, and news of devices that are full, busy or lost.
//
// It decides nothing about memory or turns: gpu and sched do.
package devices
