package config

import (
	"slices"
	"time"
)

// GPU is the scheduling of GPU functions. The words are those of the
// MQFQ-Sticky paper. A nil knob leaves the value that the policy itself has.
type GPU struct {
	// Devices says which real devices are used: "auto", "none", or a list.
	Devices string
	// SimulatedDevices is how many pretended devices there are, each with
	// SimulatedMemory; then no real one is used.
	SimulatedDevices int
	SimulatedMemory  Size
	// FakeDriver is the directory of a driver under which functions of
	// simulated devices run as on a GPU, empty for none.
	FakeDriver string
	// MPS is "off", or "shared": all containers of a device are clients of
	// one MPS daemon.
	MPS string
	// Shim is the library in the containers, and its sockets.
	Shim GPUShim
	// Policy orders the flows.
	Policy string
	// Overrun is T: how far a flow may run ahead of the global virtual time.
	Overrun *time.Duration
	// Gap raises T to half of it.
	Gap *time.Duration
	// Slowdown ends the wait of whom the order leaves behind.
	Slowdown float64
	// Tokens is D: invocations in flight per device; its upper bound when it
	// is Dynamic, which keeps utilization below Threshold.
	Tokens    int
	Dynamic   bool
	Threshold float64
	// TTL is how long an empty flow stays active.
	TTL GPUTTL
	// Namespaces shares among namespaces first, then among their flows.
	Namespaces bool
	// InitialCharge is the estimate for a function that never finished; 0
	// means a tenth of Overrun.
	InitialCharge time.Duration
	Knobs         GPUKnobs
	// PoolSize is how many containers a device keeps, Retention which one
	// goes when there are more; empty leaves it to the policy.
	PoolSize  int
	Retention string
	// Prefetch moves memory to the device before a flow's turn. An order to
	// move that is unanswered for AckTimeout is given again.
	Prefetch   bool
	AckTimeout time.Duration
	// DefaultMemory is the footprint of an action that states none and was
	// never measured; ContextMemory is what a container's context takes.
	DefaultMemory Size
	ContextMemory Size
	// Weights of flows ("namespace/path/action") and namespaces
	// ("namespace"); 1 where nothing is said.
	Weights map[string]float64
	// Limits is the most device memory of a container, by
	// "namespace/path/action", "namespace" or "*".
	Limits map[string]Size
	// NamespaceLimits is the most that all containers of a namespace have on
	// one device, by namespace or "*".
	NamespaceLimits map[string]Size
	// DevicePatience is how long an activation waits while no device is there
	// that could run it; 0 is for ever.
	DevicePatience time.Duration
	// Overdue is after how long an activation that has not begun is of no use
	// to anybody; 0 is never.
	Overdue time.Duration
	// Backlog and BacklogSize bound the activations that wait for a GPU and
	// their messages.
	Backlog     int
	BacklogSize Size
	// Record is the file that gets what the GPU lane hears and orders, at most
	// RecordSize of it; empty for none.
	Record     string
	RecordSize Size
	// Explain is how many activations are kept to be explained.
	Explain int
	// ForwardTopic receives the gpu actions of an invoker without a device;
	// empty means that they are answered with an error.
	ForwardTopic string
	// ForwardPartitions is how many partitions that topic is made with.
	ForwardPartitions int
}

// GPUShim is how containers get the shim.
type GPUShim struct {
	// Library is the path of libgpuwhisk.so, "none", or empty: looked for.
	Library string
	// Dir is below which the sockets lie; empty leaves it to the runtime.
	Dir string
	// Modes are the words on the shim that actions may say: managed, count, off.
	Modes []string
	// Log has the shim say in an action's own logs why it steps aside.
	Log bool
}

// GPUTTL bounds alpha x (mean time between arrivals).
type GPUTTL struct {
	Alpha    float64
	Min, Max time.Duration
}

// GPUKnobs switch parts of a policy; nil leaves what the policy says.
type GPUKnobs struct {
	// Correct settles a charge with what was used, at completion.
	Correct *bool
	// CountSetup charges the creation of a container as service.
	CountSetup *bool
	// Wait, Locality and Shortest are choices inside the window of eligible
	// flows.
	Wait     *bool
	Locality *bool
	Shortest *bool
}

// DefaultPolicy is the scheduling policy where none is named.
const DefaultPolicy = "sticky-plus"

// Policies are the scheduling policies by name.
func Policies() []string {
	return []string{"mqfq-sticky", "sticky-plus", "mqfq", "sfq", "fcfs", "batch", "paella", "sjf", "eevdf", "naive"}
}

// Retentions are the rules by which a full pool gives up a container.
func Retentions() []string { return []string{"lru", "flow-lru", "protect-lru", "demand"} }

func gpuKeys(c *Config) []*Key {
	return slices.Concat(schedulingKeys(&c.GPU), deviceKeys(&c.GPU), memoryKeys(&c.GPU))
}

func schedulingKeys(g *GPU) []*Key {
	const policy = "; unset means as the policy has it"
	return []*Key{
		{Name: "whisk.gpu.policy", Default: DefaultPolicy, value: choice(&g.Policy, Policies()...),
			Doc: "which queued GPU invocation goes next"},
		{Name: "whisk.gpu.overrun", value: optional(&g.Overrun, duration),
			Doc: "T: how far a flow may run ahead of the others; larger is faster and less fair; unset means 10 seconds, or 0 where the policy has no overrun; half of the gap is T where that is more"},
		{Name: "whisk.gpu.gap", value: optional(&g.Gap, duration),
			Doc: "how much more device time one function may get on account of the window than another that also waits: T is half of it, where that is more than the overrun; more of it is faster on the mean and less fair; 0 keeps T at the overrun; unset means as the policy has it, or 0 where the overrun is set"},
		{Name: "whisk.gpu.tokens", Default: "2", value: integer(&g.Tokens, 1, 64),
			Doc: "D: invocations in flight per device; its upper bound when it is dynamic"},
		{Name: "whisk.gpu.dynamic-tokens", Default: "false", value: boolean(&g.Dynamic),
			Doc: "let D move between 1 and its bound by the device's utilization and by how much runs slow each other down"},
		{Name: "whisk.gpu.utilization-threshold", Default: "0.9", value: real(&g.Threshold, 0.01, 1),
			Doc: "share of time in which a kernel runs, averaged, above which a dynamic D falls"},
		{Name: "whisk.gpu.ttl.alpha", Default: "2", value: real(&g.TTL.Alpha, 0, 1000),
			Doc: "an empty flow stays active for alpha times its mean time between arrivals"},
		{Name: "whisk.gpu.ttl.min", Default: "100 ms", value: duration(&g.TTL.Min), Doc: "least such time"},
		{Name: "whisk.gpu.ttl.max", Default: "10 minutes", value: duration(&g.TTL.Max), Doc: "longest such time"},
		{Name: "whisk.gpu.explain", Default: "10000", value: integer(&g.Explain, 0, 1_000_000),
			Doc: "of how many of the last activations it is remembered what became of them, for the console and gpuwhisk explain; ten thousand take about two megabytes"},
		{Name: "whisk.gpu.namespaces", Default: "true", value: boolean(&g.Namespaces),
			Doc: "share among namespaces first, then among the functions of each, so that the weight of an annotation orders its own namespace's functions only; false shares among all functions alike, and only whisk.gpu.weights sets weights"},
		{Name: "whisk.gpu.limits", value: limits(&g.Limits),
			Doc: "most device memory that a container may hold, its processes together: the closest of namespace/path/action, namespace and * counts, and an annotation's own limit where that is less; a CUDA program hears out of memory beyond it, and one that holds more all the same is ended. A limit counts against user-memory beside the action's memory, for it is what the container takes of the host while it is swapped out. Empty sets none: then the device is the limit, and nothing is counted"},
		{Name: "whisk.gpu.namespace-limits", value: tenants(&g.NamespaceLimits),
			Doc: "most device memory that all containers of a namespace together may have on one device, contexts aside: what runs there, and what idle ones have left there, which is moved out for those that run; * is for each namespace that is not named. A run that would go beyond it waits for the namespace's other runs, and none of its containers may hold more. Empty sets none"},
		{Name: "whisk.gpu.weights", value: weights(&g.Weights),
			Doc: "comma-separated namespace/action=weight or namespace=weight, which rule over annotations; 1 where nothing is said"},
		{Name: "whisk.gpu.initial-charge", Default: "0 seconds", value: duration(&g.InitialCharge),
			Doc: "estimated service of a function that never finished; 0 means a tenth of the overrun"},
		{Name: "whisk.gpu.charge.correct", value: optional(&g.Knobs.Correct, boolean),
			Doc: "settle a flow's charge with what was used, at completion; without it no bound on service holds" + policy},
		{Name: "whisk.gpu.charge.setup", value: optional(&g.Knobs.CountSetup, boolean),
			Doc: "charge the creation of a container as GPU service" + policy},
		{Name: "whisk.gpu.wait", value: optional(&g.Knobs.Wait, boolean),
			Doc: "wait for a busy container where that is sooner than a cold start" + policy},
		{Name: "whisk.gpu.locality", value: optional(&g.Knobs.Locality, boolean),
			Doc: "wait for the device that has the container where that is sooner than starting elsewhere" + policy},
		{Name: "whisk.gpu.shortest", value: optional(&g.Knobs.Shortest, boolean),
			Doc: "take what is expected to end soonest, set-up included, among flows that may go; for the sticky policies only" + policy},
		{Name: "whisk.gpu.slowdown", Default: "40", value: real(&g.Slowdown, 0, 1_000_000),
			Doc: "under the sticky policies an activation that has waited so many times what it takes, set-up included, goes before the policy's order if its function is among those served least: so a rare call does not wait behind a crowd; 0 never"},
	}
}

func deviceKeys(g *GPU) []*Key {
	return []*Key{
		{Name: "whisk.gpu.devices", Default: "auto", value: text(&g.Devices),
			Doc: "auto: all GPUs that the driver has, none without a driver; none; or a comma-separated list of UUIDs and of indexes as nvidia-smi counts them, CARD:SLICE for a MIG slice"},
		{Name: "whisk.gpu.simulated.devices", Default: "0", value: integer(&g.SimulatedDevices, 0, 64),
			Doc: "number of simulated GPUs, used in the place of real ones; everything shows them as simulated"},
		{Name: "whisk.gpu.simulated.memory", Default: "16 GiB", value: size(&g.SimulatedMemory, int64(MiB)),
			Doc: "memory of each simulated GPU"},
		{Name: "whisk.gpu.fake-driver", value: text(&g.FakeDriver),
			Doc: "directory of a fake libcuda.so.1, such as build/shim/fake12: functions of simulated GPUs run under it and the real shim, as processes or in Docker containers; empty means that such functions see no GPU"},
		{Name: "whisk.gpu.device-patience", Default: "5 minutes", value: duration(&g.DevicePatience),
			Doc: "an activation that waits so long while no GPU is there that could run it ends with an error that says so; 0 waits for ever"},
		{Name: "whisk.gpu.overdue", Default: "0 seconds", value: duration(&g.Overdue),
			Doc: "a GPU activation that has not begun so long after it was accepted ends with an error, for nobody waits for its answer any more; 0 never ends one"},
		{Name: "whisk.gpu.backlog", Default: "1000000", value: integer(&g.Backlog, 1, 10_000_000),
			Doc: "GPU activations that may wait beside all others, each of which takes some 400 bytes of memory while its message is parked in the journal; CPU activations are taken whatever waits there; when it is full, GPU activations count as any other and the invoker takes less"},
		{Name: "whisk.gpu.backlog-size", Default: "256 MiB", value: size(&g.BacklogSize, int64(MiB)),
			Doc: "memory that the messages of waiting GPU activations may take where they cannot be parked: there is no journal, or it is full; beyond it as when the backlog is full. Where they can, at most 2,000 messages or 16 MiB are kept in memory, those whose turn is near"},
		{Name: "whisk.gpu.record", value: text(&g.Record),
			Doc: "file that gets every event and order of GPU scheduling, for gpuwhisk sim replay; an older one is kept as FILE.old; empty records nothing"},
		{Name: "whisk.gpu.record-size", Default: "256 MiB", value: size(&g.RecordSize, int64(MiB)),
			Doc: "the recording ends when its file has this size"},
		{Name: "whisk.gpu.forward-topic", value: topic(&g.ForwardTopic),
			Doc: "topic that gets the GPU activations of an invoker without a GPU; empty answers them with an error. Invokers with a GPU and the same setting share its partitions, each function staying with one of them; a topic such as invoker9 is taken from by that invoker alone"},
		{Name: "whisk.gpu.forward-partitions", Default: "12", value: integer(&g.ForwardPartitions, 1, 1000),
			Doc: "partitions that an invoker with a GPU makes the forward topic with; no more invokers than that share it"},
	}
}

func memoryKeys(g *GPU) []*Key {
	return []*Key{
		{Name: "whisk.gpu.mps", Default: "off", value: choice(&g.MPS, "off", "shared"),
			Doc: "shared starts an MPS daemon for each whole GPU, by which functions of all namespaces run at once on it; a fault of one ends the work of all, and none is shielded from another"},
		{Name: "whisk.gpu.shim.library", value: text(&g.Shim.Library),
			Doc: "path of libgpuwhisk.so, or none; empty looks beside the program, in ../lib/gpuwhisk from there and in build/shim, and does without if there is none"},
		{Name: "whisk.gpu.shim.modes", Default: "managed,count,off", value: shimModes(&g.Shim.Modes),
			Doc: "what actions may ask of the shim in their annotations; an action that asks for another is refused. Memory of count cannot be moved, that of off is seen by NVML alone"},
		{Name: "whisk.gpu.shim.log", Default: "false", value: boolean(&g.Shim.Log),
			Doc: "have the shim say in an action's logs why it steps aside"},
		{Name: "whisk.gpu.shim.dir", value: text(&g.Shim.Dir),
			Doc: "directory below which the shim's sockets lie, on the host of the containers; empty means /var/run/gpuwhisk, and the process runtime's own directory"},
		{Name: "whisk.gpu.ack-timeout", Default: "10 seconds", value: duration(&g.AckTimeout),
			Doc: "an order to move device memory that is not answered in this time is given again; 0 means 10 seconds"},
		{Name: "whisk.gpu.pool-size", Default: "32", value: integer(&g.PoolSize, 0, 100_000),
			Doc: "GPU containers per device, busy ones included; 0 makes every run a cold start"},
		{Name: "whisk.gpu.retention", value: choice(&g.Retention, append([]string{""}, Retentions()...)...),
			Doc: "which container goes when the pool is full; empty means demand for sticky-plus and lru for the others"},
		{Name: "whisk.gpu.prefetch", Default: "true", value: boolean(&g.Prefetch),
			Doc: "move a function's memory to the device before its turn"},
		{Name: "whisk.gpu.default-memory", Default: "1 GiB", value: size(&g.DefaultMemory, int64(MiB)),
			Doc: "device memory of an action that states none and was never measured"},
		{Name: "whisk.gpu.context-memory", Default: "400 MiB", value: size(&g.ContextMemory, 0),
			Doc: "device memory that a container's context takes beside its own"},
	}
}
