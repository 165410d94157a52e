package config

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// GPU is the scheduling of GPU functions. The words are those of the
// MQFQ-Sticky paper.
type GPU struct {
	Devices          string
	SimulatedDevices int
	SimulatedMemory  Size
	FakeDriver       string
	MPS              string
	// Shim is the library in the containers, and its sockets.
	Shim GPUShim
	// Policy orders the flows; Sched is what it does and what was set beside it.
	Policy string
	Sched  sched.Config
	// Tokens is D, fixed or found by utilization.
	Tokens gpu.TokensConfig
	// Pool bounds the containers of a device.
	Pool              gpu.PoolConfig
	Prefetch          bool
	AckTimeout        time.Duration
	DefaultMemory     Size
	ContextMemory     Size
	Weights           map[string]float64
	Limits            map[string]Size
	NamespaceLimits   map[string]Size
	DeviceTimeout     time.Duration
	Overdue           time.Duration
	Backlog           int
	BacklogSize       Size
	Record            string
	RecordSize        Size
	Explain           int
	ForwardTopic      string
	ForwardPartitions int
}

// GPUShim is how containers get the shim.
type GPUShim struct {
	Library string
	Dir     string
	Modes   []string
	Log     bool
}

// DefaultPolicy is the scheduling policy where none is named.
const DefaultPolicy = "sticky-plus"

// Policies are the scheduling policies by name.
func Policies() []string {
	var names []string
	for _, p := range sched.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// policy is the name of a policy. Setting it sets what the policy does.
func (g *GPU) policy() value {
	v := choice(&g.Policy, Policies()...)
	name := v.set
	v.set = func(s string) error {
		if err := name(s); err != nil {
			return err
		}
		g.Sched, _ = sched.Defaults(g.Policy) // it is one of them
		g.Pool.Rule = gpu.LRU
		if g.info().Demand {
			g.Pool.Rule = gpu.DemandAware
		}
		return nil
	}
	return v
}

func (g *GPU) info() sched.Info {
	all := sched.Policies()
	return all[slices.IndexFunc(all, func(p sched.Info) bool { return p.Name == g.Policy })]
}

// complete settles what several keys decide together.
func (g *GPU) complete(given func(key string) bool) {
	if given("whisk.gpu.overrun") && !given("whisk.gpu.gap") {
		g.Sched.Gap = 0 // a T that is asked for is T
	}
	if g.info().NoPool {
		g.Pool.Size = 0
	}
}

// retention is which container goes when the pool is full.
func retention(at *gpu.Rule) value {
	return own(field(at, "lru | flow-lru | protect-lru | demand", func(s string) (gpu.Rule, error) {
		rule, err := gpu.ParseRule(strings.TrimSpace(s))
		if err != nil {
			return 0, errBad
		}
		return rule, nil
	}, gpu.Rule.String))
}

func gpuKeys(c *Config) []*Key {
	return slices.Concat(schedulingKeys(&c.GPU), deviceKeys(&c.GPU), memoryKeys(&c.GPU))
}

func schedulingKeys(g *GPU) []*Key {
	return []*Key{
		{Name: "whisk.gpu.policy", Default: DefaultPolicy, value: g.policy(),
			Doc: "which queued GPU invocation goes next"},
		{Name: "whisk.gpu.overrun", byPolicy: true, value: duration(&g.Sched.Overrun),
			Doc: "T: how far a flow may run ahead of the others; larger is faster and less fair; half of the gap is T where that is more"},
		{Name: "whisk.gpu.gap", byPolicy: true, value: duration(&g.Sched.Gap),
			Doc: "how much more device time one waiting function may get than another: T is half of it where that is more than the overrun; more is faster on the mean and less fair; 0 leaves T at the overrun, as does an overrun that is set"},
		{Name: "whisk.gpu.tokens", Default: "2", value: integer(&g.Tokens.Max, 1, 64),
			Doc: "D: invocations in flight per device; its upper bound when it is dynamic"},
		{Name: "whisk.gpu.dynamic-tokens", Default: "false", value: boolean(&g.Tokens.Dynamic),
			Doc: "let D move between 1 and its bound by utilization and by how much runs slow each other down"},
		{Name: "whisk.gpu.utilization-threshold", Default: "0.9", value: real(&g.Tokens.Threshold, 0.01, 1),
			Doc: "share of time in which a kernel runs, averaged, above which a dynamic D falls"},
		{Name: "whisk.gpu.ttl.alpha", Default: "2", value: real(&g.Sched.TTLAlpha, 0, 1000),
			Doc: "an empty flow stays active for alpha times its mean time between arrivals"},
		{Name: "whisk.gpu.ttl.min", Default: "100 ms", value: duration(&g.Sched.TTLMin), Doc: "least such time"},
		{Name: "whisk.gpu.ttl.max", Default: "10 minutes", value: duration(&g.Sched.TTLMax), Doc: "longest such time"},
		{Name: "whisk.gpu.explain", Default: "10000", value: integer(&g.Explain, 0, 1_000_000),
			Doc: "how many of the last activations the console and gpuwhisk explain know; ten thousand take about two megabytes"},
		{Name: "whisk.gpu.namespaces", Default: "true", value: boolean(&g.Sched.Namespaces),
			Doc: "share among namespaces first, then among the functions of each, where annotations' weights count; false shares among all functions, and only whisk.gpu.weights sets weights"},
		{Name: "whisk.gpu.limits", value: limits(&g.Limits),
			Doc: "most device memory of a container's processes together, by the closest of namespace/path/action, namespace and *, or an annotation's own where that is less; beyond it CUDA reports out of memory, and a container that takes more all the same is ended. It counts against user-memory too, where the container lies while it is swapped out. Empty: the device is the limit"},
		{Name: "whisk.gpu.namespace-limits", value: tenants(&g.NamespaceLimits),
			Doc: "most device memory of a namespace's containers on one device, idle ones included, contexts not; * is for namespaces that are not named. A run beyond it waits for the namespace's other runs. Empty sets none"},
		{Name: "whisk.gpu.weights", value: weights(&g.Weights),
			Doc: "shares of device time, which go before annotations'; 1 where nothing is said"},
		{Name: "whisk.gpu.initial-charge", Default: "0 seconds", value: duration(&g.Sched.InitialCharge),
			Doc: "estimated service of a function that never finished; 0 means a tenth of the overrun"},
		{Name: "whisk.gpu.charge.correct", byPolicy: true, value: boolean(&g.Sched.Correct),
			Doc: "settle a flow's charge with what was used, at completion; without it no bound on service holds"},
		{Name: "whisk.gpu.charge.setup", byPolicy: true, value: boolean(&g.Sched.CountSetup),
			Doc: "charge the creation of a container as GPU service"},
		{Name: "whisk.gpu.wait", byPolicy: true, value: boolean(&g.Sched.Wait),
			Doc: "wait for a busy container where that is sooner than a cold start"},
		{Name: "whisk.gpu.locality", byPolicy: true, value: boolean(&g.Sched.Locality),
			Doc: "wait for the device that has the container where that is sooner than starting elsewhere"},
		{Name: "whisk.gpu.shortest", byPolicy: true, value: boolean(&g.Sched.Shortest),
			Doc: "take what is expected to end soonest among flows that may go; for the sticky policies"},
		{Name: "whisk.gpu.slowdown", Default: "40", value: real(&g.Sched.Slowdown, 0, 1_000_000),
			Doc: "under the sticky policies an activation that has waited so many times its expected time, set-up included, goes first if its function is among those served least; 0 never"},
	}
}

func deviceKeys(g *GPU) []*Key {
	return []*Key{
		{Name: "whisk.gpu.devices", Default: "auto", value: text(&g.Devices),
			Doc: "auto: all GPUs of the driver, if any; none; or a list of UUIDs and of indexes as nvidia-smi counts them, CARD:SLICE for a MIG slice"},
		{Name: "whisk.gpu.simulated.devices", Default: "0", value: integer(&g.SimulatedDevices, 0, 64),
			Doc: "number of simulated GPUs, used in the place of real ones; everything shows them as simulated"},
		{Name: "whisk.gpu.simulated.memory", Default: "16 GiB", value: size(&g.SimulatedMemory, int64(MiB)),
			Doc: "memory of each simulated GPU"},
		{Name: "whisk.gpu.fake-driver", value: text(&g.FakeDriver),
			Doc: "directory of a fake libcuda.so.1, such as build/shim/fake12, under which functions of simulated GPUs run with the real shim; empty: they see no GPU"},
		{Name: "whisk.gpu.device-patience", Default: "5 minutes", value: duration(&g.DeviceTimeout),
			Doc: "an activation that waits so long without a GPU that could run it ends with an error; 0 waits for ever"},
		{Name: "whisk.gpu.overdue", Default: "0 seconds", value: duration(&g.Overdue),
			Doc: "a GPU activation that has not begun after this time ends with an error; 0 never"},
		{Name: "whisk.gpu.backlog", Default: "1000000", value: integer(&g.Backlog, 1, 10_000_000),
			Doc: "GPU activations that may wait beside all CPU activations, about 400 bytes of memory each; when it is full they count as any other and the invoker pulls less"},
		{Name: "whisk.gpu.backlog-size", Default: "256 MiB", value: size(&g.BacklogSize, int64(MiB)),
			Doc: "memory for messages of waiting GPU activations that cannot be spilled to the journal; beyond it the backlog counts as full. With a journal at most 2,000 messages or 16 MiB stay in memory"},
		{Name: "whisk.gpu.record", value: text(&g.Record),
			Doc: "file that records GPU scheduling for gpuwhisk sim replay; an older one is kept as FILE.old; empty records nothing"},
		{Name: "whisk.gpu.record-size", Default: "256 MiB", value: size(&g.RecordSize, int64(MiB)),
			Doc: "the recording ends when its file has this size"},
		{Name: "whisk.gpu.forward-topic", value: topic(&g.ForwardTopic),
			Doc: "topic for GPU activations of an invoker without a GPU; empty answers them with an error. Invokers with a GPU and the same setting share its partitions, each function staying with one; a topic such as invoker9 belongs to that invoker alone"},
		{Name: "whisk.gpu.forward-partitions", Default: "12", value: integer(&g.ForwardPartitions, 1, 1000),
			Doc: "partitions of the forward topic when it has to be created; no more invokers than that share it"},
	}
}

func memoryKeys(g *GPU) []*Key {
	return []*Key{
		{Name: "whisk.gpu.mps", Default: "off", value: choice(&g.MPS, "off", "shared"),
			Doc: "shared: an MPS daemon for each whole GPU runs functions of all namespaces at once; a fault of one ends the work of all, and none is shielded from another"},
		{Name: "whisk.gpu.shim.library", value: text(&g.Shim.Library),
			Doc: "path of libgpuwhisk.so, or none; empty looks beside the program, in ../lib/gpuwhisk and in build/shim"},
		{Name: "whisk.gpu.shim.modes", Default: "managed,count,off", value: shimModes(&g.Shim.Modes),
			Doc: "what annotations may ask of the shim; another is refused. Memory of count cannot be moved, that of off is seen by NVML alone"},
		{Name: "whisk.gpu.shim.log", Default: "false", value: boolean(&g.Shim.Log),
			Doc: "have the shim say in an action's logs why it steps aside"},
		{Name: "whisk.gpu.shim.dir", value: text(&g.Shim.Dir),
			Doc: "directory of the shim's sockets on the containers' host; empty means /var/run/gpuwhisk, or the process runtime's own"},
		{Name: "whisk.gpu.ack-timeout", Default: "10 seconds", value: duration(&g.AckTimeout),
			Doc: "a move of device memory that is unanswered for so long is ordered again; 0 means 10 seconds"},
		{Name: "whisk.gpu.pool-size", Default: "32", value: integer(&g.Pool.Size, 0, 100_000),
			Doc: "GPU containers per device, busy ones included; 0 makes every run a cold start"},
		{Name: "whisk.gpu.retention", byPolicy: true, value: retention(&g.Pool.Rule),
			Doc: "which container is removed when the pool is full"},
		{Name: "whisk.gpu.prefetch", Default: "true", value: boolean(&g.Prefetch),
			Doc: "move a function's memory to the device before its turn"},
		{Name: "whisk.gpu.default-memory", Default: "1 GiB", value: size(&g.DefaultMemory, int64(MiB)),
			Doc: "device memory of an action that states none and was never measured"},
		{Name: "whisk.gpu.context-memory", Default: "400 MiB", value: size(&g.ContextMemory, 0),
			Doc: "device memory that a container's context takes beside its own"},
	}
}
