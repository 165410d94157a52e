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
}

// String writes the reason for a table that has the flow's name, its state and its lead in
// columns of their own. It leaves out figures that change while nothing happens to the flow.
func (r Reason) String() string {
	text, until := r.Rule.String(), r.Until.Round(time.Millisecond)
	switch r.Rule {
	case RuleThrottle:
		text += fmt.Sprintf(": its %s leads by more than %s", r.Level, r.Overrun)
	case RuleBehind:
		text += " " + r.Behind.String()
	case RuleWait:
		text += fmt.Sprintf(" until %s", until)
	case RuleBackoff:
		text += fmt.Sprintf(" until %s after %d failed runs in a row", until, r.Failed)
	case RuleNoFit:
		text += ": no memory or no container for it on any device with a free token"
		if r.Missing != "" {
			text += ": " + r.Missing
		}
	}
	if r.Last != RuleNone {
		text += fmt.Sprintf("; last chosen by %s at %s", r.Last, r.LastAt.Round(time.Millisecond))
	}
	return text
}
