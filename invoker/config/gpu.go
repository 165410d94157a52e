package config

import (
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// GPU is the scheduling of GPU functions. The terms are those of the
// MQFQ-Sticky paper.
type GPU struct {
	Devices          string `key:"whisk.gpu.devices" default:"auto" doc:"auto: all GPUs of the driver, if any; none; or a list of UUIDs and of indexes as nvidia-smi counts them, CARD:SLICE for a MIG slice"`
	SimulatedDevices int    `key:"whisk.gpu.simulated.devices" default:"0" range:"0..64" doc:"number of simulated GPUs, used instead of real ones, and memory of each"`
	SimulatedMemory  Size   `key:"whisk.gpu.simulated.memory" default:"16 GiB" min:"1 MiB" doc:"number of simulated GPUs, used instead of real ones, and memory of each"`
	FakeDriver       string `key:"whisk.gpu.fake-driver" doc:"directory of a fake libcuda.so.1, such as build/shim/fake12, for functions of simulated GPUs; empty: they see no GPU"`
	MPS              string `key:"whisk.gpu.mps" default:"off" enum:"off,shared" doc:"shared: an MPS daemon for each whole GPU runs functions of all namespaces at once; a fault of one ends the work of all"`
	Shim             GPUShim
	// Policy orders the flows; Sched is what it does and what was set beside it.
	// The keys of Sched, Tokens and Pool are those of schedulingKeys.
	Policy string
	Sched  sched.Config
	// Tokens is D, fixed or found by utilization.
	Tokens gpu.TokensConfig
	// Pool bounds the containers of a device.
	Pool              gpu.PoolConfig
	Prefetch          bool               `key:"whisk.gpu.prefetch" default:"true" doc:"move a function's memory to the device before its turn"`
	AckTimeout        time.Duration      `key:"whisk.gpu.ack-timeout" default:"10 seconds" doc:"a move of device memory that is unanswered for so long is ordered again; 0 means 10 seconds"`
	DefaultMemory     Size               `key:"whisk.gpu.default-memory" default:"1 GiB" min:"1 MiB" doc:"device memory of an action that states none and was never measured"`
	ContextMemory     Size               `key:"whisk.gpu.context-memory" default:"400 MiB" doc:"device memory that a container's context takes beside its own"`
	Weights           map[string]float64 `key:"whisk.gpu.weights" doc:"shares of device time, which go before annotations'; 1 where none is set"`
	Limits            map[string]Size    `key:"whisk.gpu.limits" format:"actions" doc:"most device memory of a container, by the closest rule, or its annotation's where that is less; beyond it CUDA reports out of memory. It counts against user-memory too. Empty: the device is the limit"`
	NamespaceLimits   map[string]Size    `key:"whisk.gpu.namespace-limits" format:"namespaces" doc:"most device memory of a namespace's containers on one device, contexts aside; a run beyond it waits for the namespace's other runs. Empty: no limit"`
	DeviceTimeout     time.Duration      `key:"whisk.gpu.device-timeout" default:"5 minutes" doc:"an activation that waits so long without a GPU that could run it ends with an error; 0: never"`
	Overdue           time.Duration      `key:"whisk.gpu.overdue" default:"0 seconds" doc:"a GPU activation that has not begun after this time ends with an error; 0: never"`
	Backlog           int                `key:"whisk.gpu.backlog" default:"1000000" range:"1..10000000" doc:"GPU activations that may wait beside all CPU activations, some 400 bytes each; beyond it less is pulled"`
	BacklogSize       Size               `key:"whisk.gpu.backlog-size" default:"256 MiB" min:"1 MiB" doc:"memory for their messages where those cannot be spilled to the journal; beyond it the backlog is full. With a journal at most 2,000 messages or 16 MiB stay in memory"`
	Record            string             `key:"whisk.gpu.record" doc:"file that records GPU scheduling for gpuwhisk sim replay; an older one is kept as FILE.old"`
	RecordSize        Size               `key:"whisk.gpu.record-size" default:"256 MiB" min:"1 MiB" doc:"the recording ends when its file has this size"`
	Explain           int                `key:"whisk.gpu.explain" default:"10000" range:"0..1000000" doc:"how many of the last activations the console and gpuwhisk explain know; ten thousand take 8 MB"`
	ForwardTopic      string             `key:"whisk.gpu.forward-topic" format:"topic" doc:"topic for GPU activations of an invoker without a GPU, in classic mode; empty answers them with an error. Invokers with a GPU and the same setting share its partitions; a topic such as invoker9 belongs to that invoker alone"`
	ForwardPartitions int                `key:"whisk.gpu.forward-partitions" default:"12" range:"1..1000" doc:"partitions of the forward topic when it has to be created; no more invokers than that share it"`
}

// GPUShim is how containers get the shim.
type GPUShim struct {
	Library string   `key:"whisk.gpu.shim.library" doc:"path of libgpuwhisk.so, or none; empty looks beside the program, in ../lib/gpuwhisk and in build/shim"`
	Dir     string   `key:"whisk.gpu.shim.dir" doc:"directory of the shim's sockets on the containers' host; empty: /var/run/gpuwhisk, or the process runtime's own"`
	Modes   []string `key:"whisk.gpu.shim.modes" format:"modes" default:"managed,count,off" doc:"what annotations may ask of the shim; memory of count cannot be moved, that of off is seen by NVML alone"`
	Log     bool     `key:"whisk.gpu.shim.log" default:"false" doc:"the shim writes to an action's logs why it disables itself"`
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
	v.set = func(given []entry) error {
		if err := name(given); err != nil {
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
		g.Sched.Gap = 0 // an overrun that is set is T
	}
	if g.info().NoPool {
		g.Pool.Size = 0
	}
}

// retention is which container is removed when the pool is full.
func retention(at *gpu.Rule) value {
	return own(field(at, "lru | flow-lru | protect-lru | demand", func(s string) (gpu.Rule, error) {
		rule, err := gpu.ParseRule(strings.TrimSpace(s))
		if err != nil {
			return 0, errBad
		}
		return rule, nil
	}, gpu.Rule.String))
}

// schedulingKeys are the keys whose fields belong to the scheduler, and have no
// tags. The policy comes first: it sets what the others may change.
func schedulingKeys(g *GPU) []*key {
	all := []*key{
		{name: "whisk.gpu.policy", standard: DefaultPolicy, value: g.policy(), doc: "which queued GPU invocation goes next"},
		{name: "whisk.gpu.overrun", byPolicy: true, value: duration(&g.Sched.Overrun), doc: "T: how far a flow may run ahead of the others; larger is faster and less fair; half of the gap is T where that is more"},
		{name: "whisk.gpu.gap", byPolicy: true, value: duration(&g.Sched.Gap), doc: "how much more device time one waiting function may get than another: T is half of it where that is more than the overrun; more is faster on the mean and less fair; 0 leaves T at the overrun, as does an overrun that is set"},
		{name: "whisk.gpu.tokens", standard: "2", value: integer(&g.Tokens.Max, 1, 64), doc: "D: invocations in flight per device; its upper bound when it is dynamic"},
		{name: "whisk.gpu.dynamic-tokens", standard: "false", value: boolean(&g.Tokens.Dynamic), doc: "let D move between 1 and its bound by utilization and by how much runs slow each other down"},
		{name: "whisk.gpu.utilization-threshold", standard: "0.9", value: real(&g.Tokens.Threshold, 0.01, 1), doc: "share of time in which a kernel runs, averaged, above which a dynamic D falls"},
		{name: "whisk.gpu.ttl.alpha", standard: "2", value: real(&g.Sched.TTLAlpha, 0, 1000), doc: "an empty flow stays active for alpha times its mean time between arrivals, within min and max"},
		{name: "whisk.gpu.ttl.min", standard: "100 ms", value: duration(&g.Sched.TTLMin), doc: "an empty flow stays active for alpha times its mean time between arrivals, within min and max"},
		{name: "whisk.gpu.ttl.max", standard: "10 minutes", value: duration(&g.Sched.TTLMax), doc: "an empty flow stays active for alpha times its mean time between arrivals, within min and max"},
		{name: "whisk.gpu.namespaces", standard: "true", value: boolean(&g.Sched.Namespaces), doc: "share among namespaces first, then among the functions of each, where annotations' weights count; false shares among all functions, and only whisk.gpu.weights sets weights"},
		{name: "whisk.gpu.initial-charge", standard: "0 seconds", value: duration(&g.Sched.InitialCharge), doc: "estimated service of a function that never finished; 0 means a tenth of the overrun"},
		{name: "whisk.gpu.charge.correct", byPolicy: true, value: boolean(&g.Sched.Correct), doc: "settle a flow's charge with what was used, at completion; without it no bound on service holds"},
		{name: "whisk.gpu.charge.setup", byPolicy: true, value: boolean(&g.Sched.CountSetup), doc: "charge the creation of a container when its run starts, and without exception; false charges it when the run ends, but for containers that replace one removed for others"},
		{name: "whisk.gpu.wait", byPolicy: true, value: boolean(&g.Sched.Wait), doc: "wait for a busy container where that is sooner than a cold start"},
		{name: "whisk.gpu.locality", byPolicy: true, value: boolean(&g.Sched.Locality), doc: "wait for the device that has the container where that is sooner than starting elsewhere"},
		{name: "whisk.gpu.shortest", byPolicy: true, value: boolean(&g.Sched.Shortest), doc: "take what is expected to end soonest among flows that may go; for the sticky policies"},
		{name: "whisk.gpu.slowdown", standard: "40", value: real(&g.Sched.Slowdown, 0, 1_000_000), doc: "under the sticky policies an activation that has waited so many times its expected time, set-up included, goes first if its function is among those served least; 0 never"},
		{name: "whisk.gpu.pool-size", standard: "32", value: integer(&g.Pool.Size, 0, 100_000), doc: "GPU containers per device, busy ones included; 0 makes every run a cold start"},
		{name: "whisk.gpu.retention", byPolicy: true, value: retention(&g.Pool.Rule), doc: "which container is removed when the pool is full"},
	}
	for _, k := range all {
		k.section = "GPU"
	}
	return all
}
