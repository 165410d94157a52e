package activation

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// UserLimits are the limits of one namespace. A nil field is not set, and the
// system's default holds. The classic invoker evaluates those with a field
// here; the others are kept and written again.
type UserLimits struct {
	StoreActivations                        *bool
	MinMemoryMB, MaxMemoryMB                *int
	MinLogsMB, MaxLogsMB                    *int
	MinTimeoutMillis, MaxTimeoutMillis      *int
	MinConcurrency, MaxConcurrency          *int
	MaxParameter, MaxPayload, Truncation    *Size
	InvocationsPerMinute, ConcurrentInvoked *int
	FiresPerMinute, MaxInstances            *int
	AllowedKinds                            []string
	raw                                     json.RawMessage
}

// ints and sizes are the limits with single values, by their keys.
func (l *UserLimits) ints() map[string]**int {
	return map[string]**int{
		"minActionMemory": &l.MinMemoryMB, "maxActionMemory": &l.MaxMemoryMB,
		"minActionLogs": &l.MinLogsMB, "maxActionLogs": &l.MaxLogsMB,
		"minActionTimeout": &l.MinTimeoutMillis, "maxActionTimeout": &l.MaxTimeoutMillis,
		"minActionConcurrency": &l.MinConcurrency, "maxActionConcurrency": &l.MaxConcurrency,
		"invocationsPerMinute": &l.InvocationsPerMinute, "concurrentInvocations": &l.ConcurrentInvoked,
		"firesPerMinute": &l.FiresPerMinute, "maxActionInstances": &l.MaxInstances,
	}
}

func (l *UserLimits) sizes() map[string]**Size {
	return map[string]**Size{"maxParameterSize": &l.MaxParameter, "maxPayloadSize": &l.MaxPayload, "truncationSize": &l.Truncation}
}

func (p *parser) userLimits() UserLimits {
	var l UserLimits
	start := p.at
	known := []field{
		optional("storeActivations", func() { l.StoreActivations = pointer(p.bool()) }),
		optional("allowedKinds", func() { l.AllowedKinds = p.strings() }),
	}
	for key, limit := range l.ints() {
		known = append(known, optional(key, func() { *limit = pointer(int(p.integer())) }))
	}
	for key, limit := range l.sizes() {
		known = append(known, optional(key, func() { *limit = pointer(p.size()) }))
	}
	p.fields(known...)
	if p.err == nil {
		l.raw = p.data[start:p.at:p.at]
	}
	return l
}

func pointer[T any](v T) *T { return &v }

// ParseUserLimits reads the limits of a namespace, of the members of data those
// that are known.
func ParseUserLimits(data []byte) (UserLimits, error) {
	p := newParser(data)
	l := p.userLimits()
	l.raw = nil
	return l, p.end()
}

// StoresActivations reports whether records of the namespace are stored.
func (l UserLimits) StoresActivations() bool {
	return l.StoreActivations == nil || *l.StoreActivations
}

// append writes the limits as they were read, or those that are set in code.
func (l UserLimits) append(dst []byte) []byte {
	if l.raw != nil {
		return append(dst, l.raw...)
	}
	set := map[string]json.RawMessage{}
	if l.AllowedKinds != nil {
		set["allowedKinds"] = appendStrings(nil, l.AllowedKinds)
	}
	if l.StoreActivations != nil {
		set["storeActivations"] = strconv.AppendBool(nil, *l.StoreActivations)
	}
	for key, limit := range l.ints() {
		if *limit != nil {
			set[key] = strconv.AppendInt(nil, int64(**limit), 10)
		}
	}
	for key, limit := range l.sizes() {
		if *limit != nil {
			set[key] = AppendString(nil, (*limit).Bytes())
		}
	}
	o := newObject(dst)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		o.raw(key, set[key])
	}
	return o.end()
}

func (p *parser) strings() []string {
	all := []string{}
	p.array(func() { all = append(all, p.str()) })
	return all
}
