package config

import (
	"time"
)

// SizeLimit bounds a number of bytes; Std is the default.
type SizeLimit struct{ Min, Max, Std Size }

// TimeLimit bounds a duration.
type TimeLimit struct{ Min, Max, Std time.Duration }

// CountLimit bounds a number.
type CountLimit struct{ Min, Max, Std int }

// Limits are the system's bounds for actions, and what a namespace without
// limits of its own gets.
type Limits struct {
	Memory      SizeLimit
	Time        TimeLimit
	Log         SizeLimit
	Concurrency CountLimit
	Payload     Payload
	// Namespace holds the default limits of a namespace; keys that are not
	// set take the system's values. Std has no meaning there.
	Namespace NamespaceLimits
}

// Payload bounds parameters and results.
type Payload struct {
	Max            Size
	Truncation     Size
	SerdesOverhead Size
}

// MaxMessage is the largest Kafka message, max.message.bytes of a topic.
func (p Payload) MaxMessage() Size { return p.Max + p.SerdesOverhead }

// NamespaceLimits bound the actions of a namespace.
type NamespaceLimits struct {
	Memory      SizeLimit
	Time        TimeLimit
	Log         SizeLimit
	Concurrency CountLimit
	Payload     Payload
}

func limitKeys(c *Config) []*Key {
	return append(systemLimitKeys(&c.Limits), namespaceLimitKeys(&c.Limits.Namespace)...)
}

func systemLimitKeys(l *Limits) []*Key {
	return []*Key{
		{Name: "whisk.memory.min", Default: "128 m", value: size(&l.Memory.Min, int64(MiB)), Doc: "smallest action memory"},
		{Name: "whisk.memory.max", Default: "512 m", value: size(&l.Memory.Max, int64(MiB)), Doc: "largest action memory"},
		{Name: "whisk.memory.std", Default: "256 m", value: size(&l.Memory.Std, int64(MiB)), Doc: "default action memory, between the two; documents of actions state theirs"},
		{Name: "whisk.time-limit.min", Default: "100 ms", value: duration(&l.Time.Min), Doc: "shortest action time limit"},
		{Name: "whisk.time-limit.max", Default: "5 m", value: duration(&l.Time.Max), Doc: "longest action time limit"},
		{Name: "whisk.time-limit.std", Default: "1 m", value: duration(&l.Time.Std), Doc: "default time limit, between the two; documents of actions state theirs"},
		{Name: "whisk.log-limit.min", Default: "0 m", value: size(&l.Log.Min, 0), Doc: "smallest action log limit"},
		{Name: "whisk.log-limit.max", Default: "10 m", value: size(&l.Log.Max, 0), Doc: "largest action log limit"},
		{Name: "whisk.log-limit.std", Default: "10 m", value: size(&l.Log.Std, 0), Doc: "default log limit, between the two; documents of actions state theirs"},
		{Name: "whisk.concurrency-limit.min", Default: "1", value: integer(&l.Concurrency.Min, 1, 1_000_000), Doc: "smallest concurrency of one container"},
		{Name: "whisk.concurrency-limit.max", Default: "1", value: integer(&l.Concurrency.Max, 1, 1_000_000), Doc: "largest concurrency of one container"},
		{Name: "whisk.concurrency-limit.std", Default: "1", value: integer(&l.Concurrency.Std, 1, 1_000_000), Doc: "default concurrency, between the two; documents of actions state theirs"},
		{Name: "whisk.activation.payload.max", Default: "1 m", value: size(&l.Payload.Max, 1), Doc: "largest result of an action"},
		{Name: "whisk.activation.payload.truncation", Default: "1 m", value: size(&l.Payload.Truncation, 0), Doc: "what is kept of a larger result"},
		{Name: "whisk.activation.payload.serdes-overhead", Default: "6068", value: size(&l.Payload.SerdesOverhead, 0), Doc: "room for a message beside its payload"},
	}
}

func namespaceLimitKeys(n *NamespaceLimits) []*Key {
	const p, like = "whisk.namespace-default-limit.", "; unset takes the system's value"
	return []*Key{
		{Name: p + "memory.min", like: "whisk.memory.min", value: size(&n.Memory.Min, int64(MiB)), Doc: "smallest action memory of a namespace" + like},
		{Name: p + "memory.max", like: "whisk.memory.max", value: size(&n.Memory.Max, int64(MiB)), Doc: "largest action memory of a namespace" + like},
		{Name: p + "time-limit.min", like: "whisk.time-limit.min", value: duration(&n.Time.Min), Doc: "shortest time limit of a namespace" + like},
		{Name: p + "time-limit.max", like: "whisk.time-limit.max", value: duration(&n.Time.Max), Doc: "longest time limit of a namespace" + like},
		{Name: p + "log-limit.min", like: "whisk.log-limit.min", value: size(&n.Log.Min, 0), Doc: "smallest log limit of a namespace" + like},
		{Name: p + "log-limit.max", like: "whisk.log-limit.max", value: size(&n.Log.Max, 0), Doc: "largest log limit of a namespace" + like},
		{Name: p + "concurrency-limit.min", like: "whisk.concurrency-limit.min", value: integer(&n.Concurrency.Min, 1, 1_000_000), Doc: "smallest concurrency of a namespace" + like},
		{Name: p + "concurrency-limit.max", like: "whisk.concurrency-limit.max", value: integer(&n.Concurrency.Max, 1, 1_000_000), Doc: "largest concurrency of a namespace" + like},
		{Name: p + "activation.payload.max", like: "whisk.activation.payload.max", value: size(&n.Payload.Max, 1), Doc: "largest result of a namespace" + like},
		{Name: p + "activation.payload.truncation", like: "whisk.activation.payload.truncation", value: size(&n.Payload.Truncation, 0), Doc: "what is kept of a larger result" + like},
	}
}

// MaxPeek is how many activations may be in the pool at once: as many as the
// smallest containers fit, more when containers run several at a time.
// OpenWhisk derives its fetch size the same way (InvokerReactive).
func (c *Config) MaxPeek() int {
	containers := int(c.Pool.UserMemory / max(c.Limits.Memory.Min, 1))
	ahead := int(float64(containers*c.Limits.Concurrency.Max) * c.Pool.ConcurrentPeekFactor)
	return max(containers, ahead)
}
