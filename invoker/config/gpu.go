package config

import "time"

// GPU is the scheduling of GPU functions. The words are those of the
// MQFQ-Sticky paper.
type GPU struct {
	// SimulatedDevices is how many pretended devices there are, each with
	// SimulatedMemory.
	SimulatedDevices int
	SimulatedMemory  Size
	// Policy orders the flows.
	Policy string
	// Overrun is T: how far a flow may run ahead of the global virtual time.
	Overrun time.Duration
	// Tokens is D: invocations in flight per device.
	Tokens int
	// TTL is how long an empty flow stays active.
	TTL GPUTTL
	// PoolSize is how many warm containers a device keeps.
	PoolSize int
	// Retention chooses the container that goes when the pool is full.
	Retention string
	// Prefetch moves memory to the device before a flow's turn.
	Prefetch bool
	// Charge says what a run costs its flow.
	Charge GPUCharge
	// Weights of flows ("namespace/action") and namespaces ("namespace"); 1
	// where nothing is said.
	Weights map[string]float64
	// ForwardTopic receives the gpu actions of an invoker without a device;
	// empty means that they are answered with an error.
	ForwardTopic string
}

// GPUTTL bounds alpha x (mean time between arrivals).
type GPUTTL struct {
	Alpha    float64
	Min, Max time.Duration
}

// GPUCharge are the knobs of the service charged to a flow.
type GPUCharge struct {
	// Correct replaces the estimate by the real service at completion.
	Correct bool
	// Creation counts the creation of a container as service.
	Creation bool
}

// Policies are the scheduling policies by name.
func Policies() []string { return []string{"mqfq-sticky", "fcfs"} }

// Retentions are the rules by which a full pool gives up a container.
func Retentions() []string { return []string{"lru"} }

func gpuKeys(c *Config) []*Key {
	g := &c.GPU
	return []*Key{
		{Name: "whisk.gpu.simulated.devices", Default: "0", value: integer(&g.SimulatedDevices, 0, 64),
			Doc: "number of simulated GPUs; everything shows them as simulated"},
		{Name: "whisk.gpu.simulated.memory", Default: "16 GiB", value: size(&g.SimulatedMemory, int64(MiB)),
			Doc: "memory of each simulated GPU"},
		{Name: "whisk.gpu.policy", Default: "mqfq-sticky", value: choice(&g.Policy, Policies()...),
			Doc: "which queued GPU invocation goes next"},
		{Name: "whisk.gpu.overrun", Default: "10 seconds", value: duration(&g.Overrun),
			Doc: "T: how far a flow may run ahead of the others; larger is faster and less fair"},
		{Name: "whisk.gpu.tokens", Default: "2", value: integer(&g.Tokens, 1, 64),
			Doc: "D: invocations in flight per device"},
		{Name: "whisk.gpu.ttl.alpha", Default: "2", value: real(&g.TTL.Alpha, 0, 1000),
			Doc: "an empty flow stays active for alpha times its mean time between arrivals"},
		{Name: "whisk.gpu.ttl.min", Default: "100 ms", value: duration(&g.TTL.Min), Doc: "least such time"},
		{Name: "whisk.gpu.ttl.max", Default: "10 minutes", value: duration(&g.TTL.Max), Doc: "longest such time"},
		{Name: "whisk.gpu.pool-size", Default: "32", value: integer(&g.PoolSize, 1, 100_000),
			Doc: "warm GPU containers kept per device"},
		{Name: "whisk.gpu.retention", Default: "lru", value: choice(&g.Retention, Retentions()...),
			Doc: "which container goes when the pool is full"},
		{Name: "whisk.gpu.prefetch", Default: "true", value: boolean(&g.Prefetch),
			Doc: "move a function's memory to the device before its turn"},
		{Name: "whisk.gpu.charge.correct", Default: "false", value: boolean(&g.Charge.Correct),
			Doc: "at completion, replace the estimated charge of a flow by the measured one"},
		{Name: "whisk.gpu.charge.creation", Default: "false", value: boolean(&g.Charge.Creation),
			Doc: "count the creation of a container as GPU service"},
		{Name: "whisk.gpu.weights", value: weights(&g.Weights),
			Doc: "comma-separated namespace/action=weight or namespace=weight; 1 where nothing is said"},
		{Name: "whisk.gpu.forward-topic", value: topic(&g.ForwardTopic),
			Doc: "topic that gets the GPU activations of an invoker without a GPU; empty answers them with an error"},
	}
}
