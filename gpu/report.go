package gpu

// MemoryReport is what one process of a container holds of a device, as it says itself.
type MemoryReport struct {
	Container string
	PID       int
	Usage     Usage
	// Exited is true when the process has ended and holds nothing any more.
	Exited bool
	// Assumed means that the usage was not measured: it is what was reserved.
	Assumed bool
	// Over says that the container holds more than it may and must be ended. It
	// is a sentence for the action's author and names the limit; mostly empty.
	Over string
	// Unfit says why the container's function cannot do with memory that is moved.
	// News that say it say nothing else; mostly empty.
	Unfit string
}

// Reading is what a device showed at a moment.
type Reading struct {
	Device int // the index of the Device
	// Utilization is the share of the last sampling period in which a kernel
	// ran, 0 to 1; negative where the driver does not say, as on a MIG slice.
	Utilization float64
	// Used is the device memory in use by anybody, in bytes; negative where
	// the driver does not say.
	Used int64
}
