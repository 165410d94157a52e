package activation

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
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
	KeptContainers                          *int           // paused ones of an action, in scheduler mode
	KeptTime                                *time.Duration // and how much longer they stay
	AllowedKinds                            []string
	raw                                     json.RawMessage
}

// limit is a limit with a single value, by its key.
type limit[T any] struct {
	key string
	of  func(*UserLimits) **T
}

var intLimits = []limit[int]{
	{"minActionMemory", func(l *UserLimits) **int { return &l.MinMemoryMB }},
	{"maxActionMemory", func(l *UserLimits) **int { return &l.MaxMemoryMB }},
	{"minActionLogs", func(l *UserLimits) **int { return &l.MinLogsMB }},
	{"maxActionLogs", func(l *UserLimits) **int { return &l.MaxLogsMB }},
	{"minActionTimeout", func(l *UserLimits) **int { return &l.MinTimeoutMillis }},
	{"maxActionTimeout", func(l *UserLimits) **int { return &l.MaxTimeoutMillis }},
	{"minActionConcurrency", func(l *UserLimits) **int { return &l.MinConcurrency }},
	{"maxActionConcurrency", func(l *UserLimits) **int { return &l.MaxConcurrency }},
	{"invocationsPerMinute", func(l *UserLimits) **int { return &l.InvocationsPerMinute }},
	{"concurrentInvocations", func(l *UserLimits) **int { return &l.ConcurrentInvoked }},
	{"firesPerMinute", func(l *UserLimits) **int { return &l.FiresPerMinute }},
	{"warmedContainerKeepingCount", func(l *UserLimits) **int { return &l.KeptContainers }},
	{"maxActionInstances", func(l *UserLimits) **int { return &l.MaxInstances }},
}

var sizeLimits = []limit[Size]{
	{"maxParameterSize", func(l *UserLimits) **Size { return &l.MaxParameter }},
	{"maxPayloadSize", func(l *UserLimits) **Size { return &l.MaxPayload }},
	{"truncationSize", func(l *UserLimits) **Size { return &l.Truncation }},
}

const keyKeptTime = "warmedContainerKeepingTimeout"

// find returns the field of a key, nil when it is not among the limits.
func find[T any](limits []limit[T], l *UserLimits, key string) **T {
	for _, one := range limits {
		if one.key == key {
			return one.of(l)
		}
	}
	return nil
}

func (p *parser) userLimits() UserLimits {
	var l UserLimits
	start := p.start()
	p.object(func(key string) {
		whole, size := find(intLimits, &l, key), find(sizeLimits, &l, key)
		switch {
		case p.null():
		case whole != nil:
			*whole = new(int(p.integer()))
		case size != nil:
			*size = new(p.size())
		case key == "storeActivations":
			l.StoreActivations = new(p.bool())
		case key == keyKeptTime:
			// An invalid duration is ignored (FPCInvokerReactive.scala).
			if d, err := parseDuration(p.str()); err == nil {
				l.KeptTime = &d
			}
		case key == "allowedKinds":
			l.AllowedKinds = p.strings()
		default:
			p.skip()
		}
	})
	if p.err == nil {
		l.raw = p.since(start)
	}
	return l
}

// ParseUserLimits parses the limits of a namespace. Unknown members are ignored.
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

// append appends the limits as they were parsed, or as they were set in code.
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
	if l.KeptTime != nil {
		set[keyKeptTime] = AppendString(nil, strconv.FormatInt(l.KeptTime.Milliseconds(), 10)+" milliseconds")
	}
	for _, one := range intLimits {
		if v := *one.of(&l); v != nil {
			set[one.key] = strconv.AppendInt(nil, int64(*v), 10)
		}
	}
	for _, one := range sizeLimits {
		if v := *one.of(&l); v != nil {
			set[one.key] = AppendString(nil, v.Bytes())
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
