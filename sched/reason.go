package sched

import (
	"fmt"
	"time"
)

// Rule names why a flow was chosen, or why it waits.
type Rule uint8

// The rules that choose, then the rules that delay.
const (
	RuleNone  Rule = iota
	RuleOrder      // first in the policy's order among the flows that may run
	RuleSpare      // beyond the window, on a device that nothing inside it can use

	RuleEmpty    // nothing is queued
	RuleThrottle // more than T ahead
	RuleNoDevice // there is no device
	RuleNoToken  // every device is full
	RuleNoFit    // free tokens, but container or memory cannot be had
	RuleWait     // waits for a container of its own instead of a cold start
	RuleBackoff  // failed again and again, and pauses
	RuleBehind   // others come first in the policy's order

	Rules // how many there are
)

var ruleNames = [Rules]string{
	"none", "order", "spare", "empty", "throttled",
	"no device", "no token", "does not fit", "waits for its container", "backs off", "behind",
}

// String gives the rule's name.
func (r Rule) String() string {
	if r >= Rules {
		return "unknown"
	}
	return ruleNames[r]
}

// Reason is why a flow does not run now and which rule chose it last.
type Reason struct {
	Flow    FlowID
	State   State
	Rule    Rule          // why it waits; RuleNone if Next would grant it
	Last    Rule          // the rule of its last grant; RuleNone before the first
	LastAt  time.Duration // when that was
	Lead    time.Duration // how far its virtual time is ahead
	Overrun time.Duration // how far it may be
	Level   string        // "function" or "namespace": which level throttles
	Behind  FlowID        // the flow that runs first, or sets global virtual time
	Until   time.Duration // when a wait, a back-off or an empty flow's TTL ends
	Failed  int           // runs in a row that failed
	Missing string        // the shortage where it does not fit, filled in by the owner of the View; may be empty

	// Of a flow that may run: the devices, how many of them have a free token, and runs
	// and tokens of all together.
	Devices, Free    int
	InFlight, Tokens int
}

func deviceCount(n int) string {
	if n == 1 {
		return "1 device"
	}
	return fmt.Sprintf("%d devices", n)
}

// String writes the reason as one line for a person.
func (r Reason) String() string {
	return fmt.Sprintf("%s %s: %s%s%s", r.Flow, r.State, r.Rule, r.detail(false), r.lastChosen(r.LastAt))
}

// Summary writes the reason for a table that has the flow's name, its state and its
// lead in columns of their own. It leaves out figures that change while nothing happens to
// the flow.
func (r Reason) Summary() string {
	r.Until = r.Until.Round(time.Millisecond)
	return r.Rule.String() + r.detail(true) + r.lastChosen(r.LastAt.Round(time.Millisecond))
}

func (r Reason) detail(brief bool) string {
	switch {
	case r.Rule == RuleThrottle && brief:
		return fmt.Sprintf(": its %s leads by more than %s", r.Level, r.Overrun)
	case r.Rule == RuleThrottle:
		return fmt.Sprintf(", %s leads by %s where %s is allowed, behind %s", r.Level, r.Lead, r.Overrun, r.Behind)
	case r.Rule == RuleBehind:
		return fmt.Sprintf(" %s", r.Behind)
	case r.Rule == RuleWait:
		return fmt.Sprintf(" until %s", r.Until)
	case r.Rule == RuleBackoff:
		return fmt.Sprintf(" until %s after %d failed runs in a row", r.Until, r.Failed)
	case r.Rule == RuleNoToken && !brief:
		return fmt.Sprintf(", %d of %d runs in flight on %s", r.InFlight, r.Tokens, deviceCount(r.Devices))
	case r.Rule == RuleNoFit && brief:
		return r.noFit("a device")
	case r.Rule == RuleNoFit:
		return r.noFit(deviceCount(r.Free))
	}
	return ""
}

func (r Reason) noFit(devices string) string {
	if r.Rule == RuleNoFit && r.Free == 0 {
		devices = "any device"
	}
	text := fmt.Sprintf(": no memory or no container for it on %s with a free token", devices)
	if r.Missing != "" {
		text += ": " + r.Missing
	}
	return text
}

func (r Reason) lastChosen(at time.Duration) string {
	if r.Last == RuleNone {
		return ""
	}
	return fmt.Sprintf("; last chosen by %s at %s", r.Last, at)
}
