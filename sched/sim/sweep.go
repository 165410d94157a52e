package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// knob is a parameter that a sweep can vary: how it is called, its usual
// values, and what setting it means.
type knob struct {
	name, text, values string
	set                func(o *Overrides, s *Spec, value string) error
}

func knobs() []knob {
	duration := func(to func(*Overrides) **time.Duration) func(*Overrides, *Spec, string) error {
		return func(o *Overrides, _ *Spec, v string) error {
			d, err := time.ParseDuration(v)
			*to(o) = &d
			return err
		}
	}
	whole := func(to func(*Overrides) **int) func(*Overrides, *Spec, string) error {
		return func(o *Overrides, _ *Spec, v string) error {
			n, err := strconv.Atoi(v)
			*to(o) = &n
			return err
		}
	}
	real := func(to func(*Overrides) **float64) func(*Overrides, *Spec, string) error {
		return func(o *Overrides, _ *Spec, v string) error {
			f, err := strconv.ParseFloat(v, 64)
			*to(o) = &f
			return err
		}
	}
	return []knob{
		{"overrun", "T: how far a flow may run ahead", "0s,1s,2s,5s,10s,20s,50s", duration(func(o *Overrides) **time.Duration { return &o.Overrun })},
		{"tokens", "D: runs in flight per device", "1,2,3,4", whole(func(o *Overrides) **int { return &o.Tokens })},
		{"ttl-alpha", "TTL over the inter-arrival time", "0,0.5,1,2,3,4", real(func(o *Overrides) **float64 { return &o.Alpha })},
		{"ttl", "one TTL for every flow", "0s,100ms,1s,2s,4s,10s", fixedTTL},
		{"pool", "containers per device", "4,8,12,16,24,32", whole(func(o *Overrides) **int { return &o.Pool })},
		{"devices", "GPUs", "1,2,3,4", whole(func(o *Overrides) **int { return &o.Devices })},
		{"retention", "which idle container is given up", "lru,flow-lru,protect-lru,demand", func(o *Overrides, _ *Spec, v string) error { o.Retention = &v; return nil }},
		{"load", "share of the capacity asked for", "0.3,0.5,0.7,0.85,0.95", func(_ *Overrides, s *Spec, v string) error {
			f, err := strconv.ParseFloat(v, 64)
			s.Load = f
			return err
		}},
		{"weight", "weight of the first function", "0.5,1,2,4", func(_ *Overrides, s *Spec, v string) error {
			f, err := strconv.ParseFloat(v, 64)
			if s.Weight = f; f == 0 {
				return errors.New("a weight is above 0")
			}
			return err
		}},
	}
}

// fixedTTL gives every flow the same TTL by clamping it from both sides.
func fixedTTL(o *Overrides, _ *Spec, v string) error {
	d, err := time.ParseDuration(v)
	o.TTLMin, o.TTLMax = &d, &d
	return err
}

// Knobs lists the parameters that Sweep varies, with a line about each and the
// values it takes unless told.
func Knobs() (names, texts, values []string) {
	for _, k := range knobs() {
		names, texts, values = append(names, k.name), append(texts, k.text), append(values, k.values)
	}
	return names, texts, values
}

// Sweep lists the entries that vary one parameter over values, for each of the
// policies. values empty takes the usual ones. fixed, when given, is the
// workload instead of spec's.
func Sweep(name, values string, policies []string, base Overrides, spec Spec, fixed *Source) ([]Entry, error) {
	var k *knob
	all := knobs()
	for i := range all {
		if all[i].name == name {
			k = &all[i]
		}
	}
	if k == nil {
		names, _, _ := Knobs()
		return nil, fmt.Errorf("--over %q: not one of %s", name, strings.Join(names, ", "))
	}
	if values == "" {
		values = k.values
	}
	var entries []Entry
	for _, v := range strings.Split(values, ",") {
		v = strings.TrimSpace(v)
		o, s := base, spec
		if err := k.set(&o, &s, v); err != nil {
			return nil, fmt.Errorf("--values %q: not a value of %s", v, name)
		}
		if fixed != nil && (name == "load" || name == "weight") {
			return nil, fmt.Errorf("--over %s: a trace has its own", name)
		}
		es, err := Entries(policies, o, s, fixed)
		if err != nil {
			return nil, err
		}
		for i := range es {
			es[i].Setting = name + "=" + v
		}
		entries = append(entries, es...)
	}
	return entries, nil
}

// Entries lists one entry for each policy under the same overrides and
// workload. The offered load is a share of the capacity of the server as the
// paper's policy would use it, the same for all.
func Entries(policies []string, o Overrides, spec Spec, fixed *Source) ([]Entry, error) {
	server, err := o.Apply("mqfq-sticky")
	if err != nil {
		return nil, err
	}
	source := fixed
	if source == nil {
		source = spec.For(server).Source()
	}
	var entries []Entry
	for _, policy := range policies {
		mine := o
		if policy != "mqfq-sticky" && policy != "sticky-plus" && len(policies) > 1 {
			mine.Shortest = nil // the others have an order of their own
		}
		p, err := mine.Apply(policy)
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Params: p, Source: source})
	}
	return entries, nil
}

// Check says whether entries can run at all, as far as their first seed tells:
// what is wrong with a parameter is known before anything has run.
func Check(entries []Entry, seed uint64) error {
	for _, e := range entries {
		w, err := e.Source.Workload(seed)
		if err != nil {
			return err
		}
		if _, err := newEngine(w, e.Params); err != nil {
			return err
		}
	}
	return nil
}
