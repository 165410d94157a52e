package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Swept is a parameter that a sweep can vary: its flag, or "ttl" for two flags, a description
// and its usual values.
type Swept struct{ Name, Text, Values string }

// SweptParameters lists the parameters that Sweep varies.
func SweptParameters() []Swept {
	return []Swept{
		{"overrun", "T: how far a flow may run ahead", "0s,1s,2s,5s,10s,20s,50s"},
		{"tokens", "D: runs in flight per device", "1,2,3,4"},
		{"ttl-alpha", "TTL over the inter-arrival time", "0,0.5,1,2,3,4"},
		{"ttl", "one TTL for every flow", "0s,100ms,1s,2s,4s,10s"},
		{"pool", "containers per device", "4,8,12,16,24,32"},
		{"devices", "GPUs", "1,2,3,4"},
		{"retention", "which idle container is evicted", "lru,flow-lru,protect-lru,demand"},
		{"load", "share of the capacity asked for", "0.3,0.5,0.7,0.85,0.95"},
		{"weight", "weight of the first function", "0.5,1,2,4"},
	}
}

// Sweep lists the entries that vary one parameter over values, for each of the
// policies. values empty takes the usual ones. trace, when given, is the
// workload instead of spec's.
func Sweep(name, values string, policies []string, base Options, spec Spec, trace *Workload) ([]Entry, error) {
	all, names := SweptParameters(), []string{}
	for _, s := range all {
		names = append(names, s.Name)
	}
	at := slices.Index(names, name)
	switch {
	case at < 0:
		return nil, fmt.Errorf("--over %q: not one of %s", name, strings.Join(names, ", "))
	case trace != nil && (name == "load" || name == "weight"):
		return nil, fmt.Errorf("--over %s: a trace has its own", name)
	}
	var entries []Entry
	for v := range strings.SplitSeq(cmp.Or(values, all[at].Values), ",") {
		v = strings.TrimSpace(v)
		flags := []string{name + "=" + v}
		if name == "ttl" {
			flags = []string{"ttl-min=" + v, "ttl-max=" + v}
		}
		o, s := base, spec
		if err := setFlags(&o, &s, flags...); err != nil {
			return nil, fmt.Errorf("--values %q: not a value of %s", v, name)
		}
		rows, err := Entries(policies, o, s, trace)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			row.Setting = name + "=" + v
			entries = append(entries, row)
		}
	}
	return entries, nil
}
