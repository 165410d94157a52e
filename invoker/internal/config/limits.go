package config

import (
	"cmp"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Limits are the system's limits for actions, and the defaults for namespaces without
// limits.
type Limits struct {
	MemoryMin Size `key:"whisk.memory.min" default:"128 m" min:"1 MiB" doc:"smallest, largest and default action memory"`
	MemoryMax Size `key:"whisk.memory.max" default:"512 m" min:"1 MiB"`
	MemoryStd Size `key:"whisk.memory.std" default:"256 m" min:"1 MiB"`

	TimeMin time.Duration `key:"whisk.time-limit.min" default:"100 ms" doc:"smallest, largest and default time limit of an action"`
	TimeMax time.Duration `key:"whisk.time-limit.max" default:"5 m"`
	TimeStd time.Duration `key:"whisk.time-limit.std" default:"1 m"`

	LogMin Size `key:"whisk.log-limit.min" default:"0 m" doc:"smallest, largest and default log limit of an action"`
	LogMax Size `key:"whisk.log-limit.max" default:"10 m"`
	LogStd Size `key:"whisk.log-limit.std" default:"10 m"`

	ConcurrencyMin int `key:"whisk.concurrency-limit.min" default:"1" range:"1..1000000" doc:"smallest, largest and default concurrency of one container"`
	ConcurrencyMax int `key:"whisk.concurrency-limit.max" default:"1" range:"1..1000000"`
	ConcurrencyStd int `key:"whisk.concurrency-limit.std" default:"1" range:"1..1000000"`

	Payload        Size `key:"whisk.activation.payload.max" default:"1 m" min:"1" doc:"largest result, size to which a larger result is truncated, and space in a message in addition to the payload"`
	Truncation     Size `key:"whisk.activation.payload.truncation" default:"1 m"`
	SerdesOverhead Size `key:"whisk.activation.payload.serdes-overhead" default:"6068"`

	Namespace NamespaceLimits
}

// Bounds returns the allowed range of each limit of an action.
func (l Limits) Bounds() activation.Bounds {
	mb := func(s Size) int { return int(s / MiB) }
	return activation.Bounds{
		TimeoutMillis: activation.Range{Min: int(l.TimeMin.Milliseconds()), Max: int(l.TimeMax.Milliseconds())},
		MemoryMB:      activation.Range{Min: mb(l.MemoryMin), Max: mb(l.MemoryMax)},
		Concurrency:   activation.Range{Min: l.ConcurrencyMin, Max: l.ConcurrencyMax},
		LogsMB:        activation.Range{Min: mb(l.LogMin), Max: mb(l.LogMax)},
		Payload:       activation.Size(l.Payload),
		Truncation:    activation.Size(l.Truncation),
	}
}

func (l Limits) check(demand demand) {
	ordered(demand, "whisk.memory", l.MemoryMin, l.MemoryStd, l.MemoryMax)
	ordered(demand, "whisk.time-limit", l.TimeMin, l.TimeStd, l.TimeMax)
	ordered(demand, "whisk.log-limit", l.LogMin, l.LogStd, l.LogMax)
	ordered(demand, "whisk.concurrency-limit", l.ConcurrencyMin, l.ConcurrencyStd, l.ConcurrencyMax)
	demand(l.Truncation <= l.Payload, "whisk.activation.payload.truncation %v is above whisk.activation.payload.max %v", l.Truncation, l.Payload)
}

func ordered[T cmp.Ordered](demand demand, name string, least, standard, most T) {
	demand(least <= standard && standard <= most, "%s: min %v, std %v, max %v are out of order", name, least, standard, most)
}

// NamespaceLimits apply to the actions of a namespace without limits of its own. Unset
// keys have the system's values.
type NamespaceLimits struct {
	MemoryMin      Size          `key:"whisk.namespace-default-limit.memory.min" like:"whisk.memory.min" min:"1 MiB" doc:"limits of a namespace without limits of its own"`
	MemoryMax      Size          `key:"whisk.namespace-default-limit.memory.max" like:"whisk.memory.max" min:"1 MiB"`
	TimeMin        time.Duration `key:"whisk.namespace-default-limit.time-limit.min" like:"whisk.time-limit.min"`
	TimeMax        time.Duration `key:"whisk.namespace-default-limit.time-limit.max" like:"whisk.time-limit.max"`
	LogMin         Size          `key:"whisk.namespace-default-limit.log-limit.min" like:"whisk.log-limit.min"`
	LogMax         Size          `key:"whisk.namespace-default-limit.log-limit.max" like:"whisk.log-limit.max"`
	ConcurrencyMin int           `key:"whisk.namespace-default-limit.concurrency-limit.min" like:"whisk.concurrency-limit.min" range:"1..1000000"`
	ConcurrencyMax int           `key:"whisk.namespace-default-limit.concurrency-limit.max" like:"whisk.concurrency-limit.max" range:"1..1000000"`
	Payload        Size          `key:"whisk.namespace-default-limit.activation.payload.max" like:"whisk.activation.payload.max" min:"1"`
	Truncation     Size          `key:"whisk.namespace-default-limit.activation.payload.truncation" like:"whisk.activation.payload.truncation"`
}

// maxMessage is the largest Kafka message, max.message.bytes of a topic.
func (l Limits) maxMessage() Size { return l.Payload + l.SerdesOverhead }

// MaxPeek returns how many activations may be in the pool at once: the number of
// smallest containers that fit, multiplied if containers run several activations.
// OpenWhisk derives its fetch size the same way (InvokerReactive).
func (c *Config) MaxPeek() int {
	containers := int(c.Pool.UserMemory / max(c.Limits.MemoryMin, 1))
	ahead := int(float64(containers*c.Limits.ConcurrencyMax) * c.Pool.ConcurrentPeekFactor)
	return max(containers, ahead)
}

// MaxLogBytes returns the size at which a container's log file is rotated, somewhat more
// than the log limit of one activation. An activation within its limit therefore never
// fills a whole file, and an activation that loses lines to a rotation has exceeded its
// limit.
func (c *Config) MaxLogBytes() int64 {
	return int64(max(c.Limits.LogMax, c.Limits.Namespace.LogMax) + MiB)
}

// OwnMemory estimates the most memory that the invoker's process needs: its working
// memory, its configured buffers, and a message, a result and a record of the largest
// size for each activation that controllers can send within user-memory.
func (c *Config) OwnMemory() int64 {
	const (
		atWork = 256 * MiB // 80 MB with 10,000 actions; activation logs may add 16 MiB
	)
	buffered := c.Actions.CacheBytes + c.Records.BufferSize + c.GPU.BacklogSize
	if c.Logs.Files.Enabled {
		buffered += c.Logs.Files.Size
	}
	return int64(atWork + buffered + 3*c.Limits.Payload*Size(c.MaxPeek()))
}
