package sched

import "time"

// FlowStats is a copy of one flow's figures.
type FlowStats struct {
	Flow     FlowID
	State    State
	Weight   float64
	Queued   int
	InFlight int
	VT       time.Duration // virtual time, on its namespace's scale
	Lead     time.Duration // VT less global virtual time
	Estimate time.Duration // expected service of the next item
	IAT      time.Duration // smoothed inter-arrival time; 0 before the second
	TTL      time.Duration
	Served   uint64        // items done
	Service  time.Duration // service used by them
	Waited   time.Duration // summed wait of granted items
	Oldest   time.Duration // arrival of the oldest queued item; 0 if none
}

// DeviceStats is a copy of one device's tokens.
// Free + InFlight + Reserved == Tokens, but while a lowered D still drains
// Free is 0 and the sum is larger.
type DeviceStats struct {
	Device   int
	Tokens   int
	Free     int
	InFlight int
	Reserved int
	Leaving  bool // removed, with items still in flight
}

// Stats is a copy of the whole's figures.
type Stats struct {
	Policy    string
	Queued    int
	InFlight  int
	Flows     int // known, inactive ones included
	Throttled int
	GVT       time.Duration // of the root level
	Chosen    [Rules]uint64 // grants by rule
	Held      uint64        // flows passed by in Next: did not fit, or waiting
	Forgotten uint64        // inactive flows dropped to bound memory
	Devices   []DeviceStats // by device index
}
