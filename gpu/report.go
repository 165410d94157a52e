package gpu

// MemoryReport is what one process of a container reports of its device memory.
type MemoryReport struct {
	Container string
	PID       int
	Usage     Usage
	// Exited is true when the process has ended and has no memory any more.
	Exited bool
	// Assumed means that the usage was not measured: it is what was reserved.
	Assumed bool
	// Over is set when the container has more memory than it may and must be ended:
	// a sentence for the action's author that names the limit. Mostly empty.
	Over string
	// Unfit is set when memory that is moved breaks the container's function, and is
	// the reason. A report with it has nothing else. Mostly empty.
	Unfit string
	// Weak means that what is Unfit may be the function itself. From a container whose
	// memory is only counted it means that it is.
	Weak bool
}

// Reading is what a device's driver reported at a moment.
type Reading struct {
	Device int // the index of the Device
	// Utilization is the share of the last sampling period in which a kernel
	// ran, 0 to 1; negative where the driver does not report it, as on a MIG slice.
	Utilization float64
	// Used is the device memory in use by all processes, in bytes; negative where
	// the driver does not report it.
	Used int64
}
