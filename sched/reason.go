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
	Behind  FlowID        // the flow that goes first, or sets global virtual time
	Until   time.Duration // when a wait or an empty flow's TTL ends
	Missing string        // what is missing where it does not fit, filled in by the owner of the View; may be empty

	// Of a flow that may go: the devices, how many of them have a free token (not
	// asked where none has), and runs and tokens of all together.
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
	var b strings.Builder
	// An open console asks for this of every flow, once a second.
	for _, part := range []string{r.Flow.Namespace, "/", r.Flow.Function, " ", r.State.String(), ": ", r.Rule.String()} {
		b.WriteString(part)
	}
	switch r.Rule {
	case RuleThrottle:
		fmt.Fprintf(&b, ", %s leads by %s where %s is allowed, behind %s",
			r.Level, r.Lead, r.Overrun, r.Behind)
	case RuleBehind:
		fmt.Fprintf(&b, " %s", r.Behind)
	case RuleWait:
		fmt.Fprintf(&b, " until %s", r.Until)
	case RuleNoToken:
		fmt.Fprintf(&b, ", %d of %d runs in flight on %s", r.InFlight, r.Tokens, deviceCount(r.Devices))
	case RuleNoFit:
		fmt.Fprintf(&b, ": no memory or no container for it on %s with a free token", deviceCount(r.Free))
		r.missing(&b)
	}
	if r.Last != RuleNone {
		for _, part := range []string{"; last chosen by ", r.Last.String(), " at ", r.LastAt.String()} {
			b.WriteString(part)
		}
	}
	return b.String()
}

func (r Reason) missing(b *strings.Builder) {
	if r.Missing != "" {
		b.WriteString(": " + r.Missing)
	}
}

// Summary says what String says for a table that has the flow's name, its state and its lead
// beside it, without what moves while nothing becomes of the flow.
func (r Reason) Summary() string {
	var b strings.Builder
	b.Grow(96)
	b.WriteString(r.Rule.String())
	switch r.Rule {
	case RuleThrottle:
		for _, part := range []string{": its ", r.Level, " leads by more than ", r.Overrun.String()} {
			b.WriteString(part)
		}
	case RuleBehind:
		b.WriteString(" " + r.Behind.String())
	case RuleWait:
		b.WriteString(" until " + r.Until.Round(time.Millisecond).String())
	case RuleNoFit:
		b.WriteString(": no memory or no container for it on a device with a free token")
		r.missing(&b)
	}
	if r.Last != RuleNone {
		for _, part := range []string{"; last chosen by ", r.Last.String(), " at ", r.LastAt.Round(time.Millisecond).String()} {
			b.WriteString(part)
		}
	}
	return b.String()
}

// SummaryKey is the reason less what Summary leaves out: equal keys have equal summaries.
func (r Reason) SummaryKey() Reason {
	r.Lead, r.Devices, r.Free, r.InFlight, r.Tokens = 0, 0, 0, 0, 0
	if r.Rule != RuleBehind {
		r.Behind = FlowID{}
	}
	if r.Rule != RuleWait {
		r.Until = 0
	}
	return r
}
