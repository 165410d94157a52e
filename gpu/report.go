package gpu

// MemoryReport is a report of a container's process about its device memory.
type MemoryReport struct {
	Container string
	PID       int
	Usage     Usage
	// Exited is true when the process has ended and has no memory any more.
	Exited bool
	// Assumed means that the usage was not measured and equals the reservation.
	Assumed bool
	// Over is set when the container exceeds its limit and must be ended: a sentence for the
	// action's author that names the limit. It is usually empty.
	Over string
	// Unfit is set when memory that is moved breaks the container's function, and is
	// the reason. A report with it has nothing else. Mostly empty.
	Unfit string
	// Weak means that the cause named in Unfit may be the function itself. If the container's
	// memory is only counted, the function is the cause.
	Weak bool
}

// Reading is a device's state as its driver reported it at one moment.
type Reading struct {
	Device int // the index of the Device
	// Utilization is the share of the last sampling period in which a kernel
	// ran, 0 to 1; negative where the driver does not report it, as on a MIG slice.
	Utilization float64
	// Used is the device memory in use by all processes, in bytes; negative where
	// the driver does not report it.
	Used int64
}
