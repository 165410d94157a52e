package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// GPU is the scheduling of GPU functions. The terms are those of the
// MQFQ-Sticky paper.
type GPU struct {
	// Policy orders the flows; Sched is what it does and what was set beside it, so
	// that it comes first.
	Policy string `key:"whisk.gpu.policy" default:"sticky-plus" format:"policy" doc:"which queued GPU invocation goes next"`
	Sched  sched.Config
	// Tokens is D, fixed or found by utilization.
	Tokens gpu.TokensConfig
	// Pool bounds the containers of a device.
	Pool gpu.PoolConfig

	Devices          string `key:"whisk.gpu.devices" default:"auto" doc:"auto: all GPUs of the driver, if any; none; or a list of UUIDs and of indexes as nvidia-smi counts them, CARD:SLICE for a MIG slice"`
	SimulatedDevices int    `key:"whisk.gpu.simulated.devices" default:"0" range:"0..64" doc:"number of simulated GPUs, used instead of real ones, and memory of each"`
	SimulatedMemory  Size   `key:"whisk.gpu.simulated.memory" default:"16 GiB" min:"1 MiB"`
	FakeDriver       string `key:"whisk.gpu.fake-driver" doc:"directory of a fake libcuda.so.1, such as build/shim/fake12, for functions of simulated GPUs"`
	MPS              string `key:"whisk.gpu.mps" default:"off" enum:"off,shared" doc:"shared: an MPS daemon for each whole GPU; a fault of one function ends the work of all"`
	Shim             GPUShim
	Prefetch         bool               `key:"whisk.gpu.prefetch" default:"true" doc:"move a function's memory to the device before its turn"`
	AckTimeout       time.Duration      `key:"whisk.gpu.ack-timeout" default:"10 seconds" doc:"a move of device memory that is unanswered for half as long is ordered again; after so long its container is removed, unless its memory moves at 512 MiB a second or faster; 0 means 10 seconds"`
	DefaultMemory    Size               `key:"whisk.gpu.default-memory" default:"1 GiB" min:"1 MiB" doc:"device memory of an action that states none and was never measured"`
	ContextMemory    Size               `key:"whisk.gpu.context-memory" default:"400 MiB" doc:"device memory that a container's context takes beside its own"`
	Weights          map[string]float64 `key:"whisk.gpu.weights" doc:"shares of device time, which go before annotations'; 1 where none is set"`
	Limits           map[string]Size    `key:"whisk.gpu.limits" format:"actions" doc:"most device memory of a container, by the closest rule, or its annotation's where that is less. It counts against user-memory too. Empty: the device is the limit"`
	NamespaceLimits  map[string]Size    `key:"whisk.gpu.namespace-limits" format:"namespaces" doc:"most device memory of a namespace's containers on one device; a run beyond it waits. Empty: no limit"`
	DeviceTimeout    time.Duration      `key:"whisk.gpu.device-timeout" default:"5 minutes" doc:"an activation without a GPU that could run it ends with an error after this time; 0: never"`
	Overdue          time.Duration      `key:"whisk.gpu.overdue" default:"0 seconds" doc:"a GPU activation that has not begun after this time ends with an error; 0: never"`
	BacklogSize      Size               `key:"whisk.gpu.backlog-size" default:"256 MiB" min:"1 MiB" doc:"memory for GPU activations that wait, 4 KiB and its parameters for each; when it is full CPU activations wait, too"`
	Record           string             `key:"whisk.gpu.record" doc:"file that records GPU scheduling for gpuwhisk sim replay; an older one is kept as FILE.old"`
	RecordSize       Size               `key:"whisk.gpu.record-size" default:"256 MiB" min:"1 MiB" doc:"the recording ends when its file has this size"`
	Explain          int                `key:"whisk.gpu.explain" default:"10000" range:"0..1000000" doc:"how many of the last activations the console and gpuwhisk explain know"`
	ForwardTo        []string           `key:"whisk.gpu.forward-to" format:"invokers" doc:"classic mode: the invokers that have GPUs, such as invoker3,invoker9. An invoker without a usable GPU passes GPU activations on to one of them; empty: it answers them with an error"`
}

// GPUShim is how containers get the shim.
type GPUShim struct {
	Library string   `key:"whisk.gpu.shim.library" doc:"path of libgpuwhisk.so, or none; empty looks beside the program, in ../lib/gpuwhisk and in build/shim"`
	Dir     string   `key:"whisk.gpu.shim.dir" doc:"directory of the shim's sockets on the containers' host; empty: /var/run/gpuwhisk"`
	Modes   []string `key:"whisk.gpu.shim.modes" format:"modes" default:"managed,count,off" doc:"what annotations may ask of the shim"`
	Log     bool     `key:"whisk.gpu.shim.log" default:"false" doc:"the shim writes to an action's logs why it disables itself"`
}

// ProcessDir is where an invoker keeps what belongs to its processes. temp is the
// directory for temporary files, and prefix that of the invoker's containers.
func (c *Config) ProcessDir(prefix, temp string) string {
	dir := filepath.Join(cmp.Or(c.Process.Dir, filepath.Join(temp, "gpuwhisk-processes")), prefix)
	if absolute, err := filepath.Abs(dir); err == nil {
		return absolute
	}
	return dir
}

// SocketDirs are the directories in which the shim's sockets of an invoker may be. It
// takes the first that it can make and in which a socket's path is short enough; the
// last one is short for every prefix. Sockets of processes are beside their other
// files, and containers need a directory that their host has under the same name.
func (c *Config) SocketDirs(prefix, temp string) []string {
	if c.GPU.Shim.Dir != "" {
		return []string{filepath.Join(c.GPU.Shim.Dir, prefix)}
	}
	own := filepath.Join(c.ProcessDir(prefix, temp), "shim")
	sum := sha256.Sum256([]byte(own))
	dirs := []string{own, filepath.Join(temp, "gpuwhisk-"+hex.EncodeToString(sum[:6]))}
	if !c.Runtimes.Processes() {
		dirs = append([]string{filepath.Join("/var/run/gpuwhisk", prefix)}, dirs...)
	}
	return dirs
}

// ForwardInvokers are the numbers of the invokers that have GPUs.
func (g *GPU) ForwardInvokers() (numbers []int) {
	for _, name := range g.ForwardTo {
		n, _ := invokerNumber(name) // it was checked
		numbers = append(numbers, n)
	}
	return numbers
}

// invokerNumber returns the number in the name of an invoker, such as invoker3.
func invokerNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, "invoker")
	n, err := strconv.ParseUint(digits, 10, 31)
	return int(n), ok && err == nil && strconv.FormatUint(n, 10) == digits
}

// invokers makes the value of a list of invokers' names.
func invokers(at *[]string) value {
	v := list(at)
	set := v.set
	v.set = func(given []entry) error {
		if err := set(given); err != nil {
			return err
		}
		for _, name := range *at {
			if _, ok := invokerNumber(name); !ok {
				return fmt.Errorf("%q is no invoker: want names such as invoker3,invoker9", name)
			}
		}
		return nil
	}
	return v
}

// policy is the name of a policy. Setting it sets what the policy does.
func (g *GPU) policy() value {
	v := choice(&g.Policy, sched.PolicyNames()...)
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
	info, _ := sched.Policy(g.Policy) // it is one of them
	return info
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
