package activation

import "encoding/json"

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

// userLimitKeys are the keys of single values, in the order they are written.
var userLimitKeys = [...]string{
	"concurrentInvocations", "firesPerMinute", "invocationsPerMinute",
	"maxActionConcurrency", "maxActionInstances", "maxActionLogs", "maxActionMemory",
	"maxActionTimeout", "maxParameterSize", "maxPayloadSize", "minActionConcurrency",
	"minActionLogs", "minActionMemory", "minActionTimeout", "storeActivations",
	"truncationSize",
}

// intField maps the whole-number limits to their fields.
func (l *UserLimits) intField(key string) **int {
	switch key {
	case "minActionMemory":
		return &l.MinMemoryMB
	case "maxActionMemory":
		return &l.MaxMemoryMB
	case "minActionLogs":
		return &l.MinLogsMB
	case "maxActionLogs":
		return &l.MaxLogsMB
	case "minActionTimeout":
		return &l.MinTimeoutMillis
	case "maxActionTimeout":
		return &l.MaxTimeoutMillis
	case "minActionConcurrency":
		return &l.MinConcurrency
	case "maxActionConcurrency":
		return &l.MaxConcurrency
	case "invocationsPerMinute":
		return &l.InvocationsPerMinute
	case "concurrentInvocations":
		return &l.ConcurrentInvoked
	case "firesPerMinute":
		return &l.FiresPerMinute
	case "maxActionInstances":
		return &l.MaxInstances
	}
	return nil
}

func (l *UserLimits) sizeField(key string) **Size {
	switch key {
	case "maxParameterSize":
		return &l.MaxParameter
	case "maxPayloadSize":
		return &l.MaxPayload
	case "truncationSize":
		return &l.Truncation
	}
	return nil
}

func (p *parser) userLimits() UserLimits {
	var l UserLimits
	start := p.at
	p.object(func(key string) {
		if p.null() {
			return
		}
		if field := l.intField(key); field != nil {
			v := int(p.integer())
			*field = &v
			return
		}
		if field := l.sizeField(key); field != nil {
			v := p.size()
			*field = &v
			return
		}
		switch key {
		case "storeActivations":
			v := p.bool()
			l.StoreActivations = &v
		case "allowedKinds":
			l.AllowedKinds = p.strings()
		default:
			p.skip()
		}
	})
	if p.err == nil {
		l.raw = p.data[start:p.at:p.at]
	}
	return l
}

// ParseUserLimits reads the limits of a namespace.
func ParseUserLimits(data []byte) (UserLimits, error) {
	p := newParser(data)
	l := p.userLimits()
	return l, p.end()
}

// StoresActivations tells whether the namespace wants records at all.
func (l UserLimits) StoresActivations() bool {
	return l.StoreActivations == nil || *l.StoreActivations
}

// append writes the limits as they were read, or those that are set in code.
func (l UserLimits) append(dst []byte) []byte {
	if l.raw != nil {
		return append(dst, l.raw...)
	}
	o := newObject(dst)
	if l.AllowedKinds != nil {
		o.strs("allowedKinds", l.AllowedKinds)
	}
	for _, key := range userLimitKeys {
		if key == "storeActivations" && l.StoreActivations != nil {
			o.bool(key, *l.StoreActivations)
		}
		if f := l.intField(key); f != nil && *f != nil {
			o.int(key, int64(**f))
		}
		if f := l.sizeField(key); f != nil && *f != nil {
			o.str(key, (*f).Bytes())
		}
	}
	return o.end()
}

func (p *parser) strings() []string {
	all := []string{}
	p.array(func() { all = append(all, p.str()) })
	return all
}
