package container

import "time"

// Leftover is a container that an earlier process left, as its engine sees it.
type Leftover struct {
	ID       ID
	Name     string
	Addr     string // of its action proxy
	Image    string // the engine's current name for the image
	Alive    bool
	Paused   bool
	MemoryMB int    // as its maker had it; 0 if that is not known
	Digest   string // of all that it was made with
}

// Activity tells the next process how the container was used.
type Activity byte

// Activities.
const (
	Busy    Activity = 'b' // an activation runs in it, or something was begun with it
	Idle    Activity = 'r'
	Pausing Activity = 'p' // its pause was begun
)

// StateFile has the facts that another process needs to adopt the container. It is stored on
// disk and outlives the process.
type StateFile struct {
	ID           ID            `json:"id"`
	Name         string        `json:"name"`
	Key          string        `json:"key,omitempty"` // hex digits; empty: prewarmed
	Kind         string        `json:"kind"`
	Image        string        `json:"image"`
	Pull         bool          `json:"pull,omitempty"`
	MemoryMB     int           `json:"memoryMB"`
	Concurrency  int           `json:"concurrency"`
	GPU          *GPUStateFile `json:"gpu,omitempty"`
	Pin          string        `json:"claim,omitempty"` // the Memo of its pin; the name in JSON is that of older versions
	Activity     Activity      `json:"-"`
	Since        time.Time     `json:"-"` // it is idle
	DeviceMemory DeviceMemory  `json:"-"`
}

// GPUStateFile has the additional facts about a container with a device.
type GPUStateFile struct {
	Device    string  `json:"device"` // its name in records and metrics
	Namespace string  `json:"namespace"`
	Function  string  `json:"function"`
	Memory    int64   `json:"memory,omitempty"`
	Unseen    bool    `json:"unseen,omitempty"`
	HostMB    int     `json:"hostMB"`
	Weight    float64 `json:"weight,omitempty"`
	Action    string  `json:"action"` // its full name
	Revision  string  `json:"revision,omitempty"`
	Shim      string  `json:"shim,omitempty"`
	Fallback  string  `json:"fallback,omitempty"` // why its memory is only counted
	Limit     int64   `json:"limit,omitempty"`
}

// DeviceMemory is the device memory of a container, in bytes.
type DeviceMemory struct{ Allocated, Resident, Context int64 }
