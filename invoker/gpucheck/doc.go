// Package gpucheck tries the shim and what stands on it on the GPU of this
// machine, measures it, and writes what it saw. It needs no Docker and no
// network, and leaves the settings of the GPU as they are. On the fake driver
// it does the same, and says so in every result.
//
// It decides nothing for the invoker and is no part of it. Programs on the GPU
// are processes of their own (shim/check); here are only the steps, the judging
// and the words.
//
// Goroutines: one per program that reads its answers, and those that a step
// starts and awaits. Run returns when all have ended and every program too.
package gpucheck
