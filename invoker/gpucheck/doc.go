// Package gpucheck tries the shim and what stands on it on the GPU of this
// machine, measures it, and writes what it saw. It needs no Docker and no
// network, and leaves the settings of the GPU as they are.
package gpucheck
