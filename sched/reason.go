package sched

import (
	"fmt"
	"strings"
	"time"
)

// Rule names what chose a flow, or what holds it.
type Rule uint8

// The rules that choose, then those that hold.
const (
	RuleNone    Rule = iota
	RuleOrder        // first in the policy's order among those that may run
	RuleSpare        // beyond the window, on a device that nothing inside it fits
	RuleDeficit      // its deficit passed the limit (paella)
	RuleBatch        // the rest of the queue being drained (batch)
	RuleOverdue      // its head waited for many times what it takes (sticky policies)

	RuleEmpty    // nothing is queued
	RuleThrottle // more than T ahead
	RuleNoDevice // there is no device
	RuleNoToken  // every device is full
	RuleNoFit    // free tokens, but container or memory cannot be had
	RuleWait     // waits for a container of its own instead of a cold start
	RuleBehind   // others come first in the policy's order

	Rules // how many there are
)

var ruleNames = [Rules]string{
	"none", "order", "spare", "deficit", "batch", "overdue", "empty", "throttled",
	"no device", "no token", "does not fit", "waits for its container", "behind",
}

// String gives the rule's name.
func (r Rule) String() string {
	if r >= Rules {
		return "unknown"
	}
	return ruleNames[r]
}

// DeviceReason is one device's part of a Reason.
type DeviceReason struct {
	Device   int
	Tokens   int
	InFlight int
	Free     int
	Facts    Facts
}

// Reason says what holds a flow now and which rule chose it last.
type Reason struct {
	Flow    FlowID
	State   State
	Rule    Rule          // what holds it; RuleNone if Next would grant it
	Last    Rule          // the rule of its last grant; RuleNone before the first
	LastAt  time.Duration // when that was
	Lead    time.Duration // how far its virtual time is ahead
	Overrun time.Duration // how far it may be
	Level   string        // "function" or "namespace": which level throttles
	Behind  FlowID        // who goes first, or sets global virtual time
	Until   time.Duration // when a wait or an empty flow's TTL ends
	Devices []DeviceReason
}

// String writes the reason as one line for a person.
func (r Reason) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s", r.Flow, r.State, r.Rule)
	switch r.Rule {
	case RuleThrottle:
		fmt.Fprintf(&b, ", %s leads by %s where %s is allowed, behind %s",
			r.Level, r.Lead, r.Overrun, r.Behind)
	case RuleBehind:
		fmt.Fprintf(&b, " %s", r.Behind)
	case RuleWait:
		fmt.Fprintf(&b, " until %s", r.Until)
	case RuleNoToken, RuleNoFit:
		for _, d := range r.Devices {
			fmt.Fprintf(&b, ", device %d: %d of %d in flight, %s, fits %t",
				d.Device, d.InFlight, d.Tokens, d.Facts.Start, d.Facts.Fits)
		}
	}
	if r.Last != RuleNone {
		fmt.Fprintf(&b, "; last chosen by %s at %s", r.Last, r.LastAt)
	}
	return b.String()
}
