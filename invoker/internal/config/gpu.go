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

// GPU configures the scheduling of GPU functions. The terms are those of the MQFQ-Sticky
// paper.
type GPU struct {
	// Policy orders the flows. It must precede Sched: setting it assigns the policy's
	// defaults to Sched, and later keys override them.
	Policy string `key:"whisk.gpu.policy" default:"sticky-plus" format:"policy" doc:"which queued GPU invocation goes next"`
	Sched  sched.Config
	// Tokens is D, the number of device tokens: fixed, or controlled by utilization.
	Tokens gpu.TokensConfig
	// Pool limits the containers of a device.
	Pool gpu.PoolConfig

	Devices          string `key:"whisk.gpu.devices" default:"auto" doc:"auto: all GPUs of the driver, if any; none; or a list of UUIDs and of indexes as nvidia-smi counts them, CARD:SLICE for a MIG slice"`
	SimulatedDevices int    `key:"whisk.gpu.simulated.devices" default:"0" range:"0..64" doc:"number of simulated GPUs, used instead of real ones, and memory of each"`
	SimulatedMemory  Size   `key:"whisk.gpu.simulated.memory" default:"16 GiB" min:"1 MiB"`
	FakeDriver       string `key:"whisk.gpu.fake-driver" doc:"directory of a fake libcuda.so.1, such as build/shim/fake12, for functions of simulated GPUs"`
	MPS              string `key:"whisk.gpu.mps" default:"off" enum:"off,shared" doc:"shared: an MPS daemon for each whole GPU; a fault of one function ends the work of all"`
	Shim             GPUShim
	Memory           string             `key:"whisk.gpu.memory" default:"managed" enum:"managed,vmm" doc:"how device memory moves to the host and back. managed: managed memory that the driver moves; vmm: mapped memory that the shim copies (not yet measured on a card)"`
	Prefetch         bool               `key:"whisk.gpu.prefetch" default:"true" doc:"move a function's memory to the device before its turn"`
	AckTimeout       time.Duration      `key:"whisk.gpu.ack-timeout" default:"10 seconds" doc:"a move of device memory that is unanswered for half as long is ordered again; after so long its container is removed, unless its memory moves at 512 MiB a second or faster; 0 means 10 seconds"`
	DefaultMemory    Size               `key:"whisk.gpu.default-memory" default:"1 GiB" min:"1 MiB" doc:"device memory of an action without an annotation that was never measured"`
	ContextMemory    Size               `key:"whisk.gpu.context-memory" default:"400 MiB" doc:"device memory that a container's context takes beside its own"`
	Weights          map[string]float64 `key:"whisk.gpu.weights" doc:"shares of device time, which override annotations; 1 if not set"`
	Limits           map[string]Size    `key:"whisk.gpu.limits" format:"actions" doc:"most device memory of a container, by the most specific rule, or by its annotation if that is less. It counts against user-memory too. Empty: the device is the limit"`
	NamespaceLimits  map[string]Size    `key:"whisk.gpu.namespace-limits" format:"namespaces" doc:"most device memory of a namespace's containers on one device; a run beyond it waits. Empty: no limit"`
	CgroupLimits     bool               `key:"whisk.gpu.cgroup-limits" default:"false" doc:"the driver limits and counts the device memory of the containers' control groups (NVML 13.4, as root); only where step cgroups of gpuwhisk gpu-check says that you can set it"`
	DeviceTimeout    time.Duration      `key:"whisk.gpu.device-timeout" default:"5 minutes" doc:"an activation without a GPU that could run it ends with an error after this time; 0: never"`
	Overdue          time.Duration      `key:"whisk.gpu.overdue" default:"0 seconds" doc:"a GPU activation that has not begun after this time ends with an error; 0: never"`
	BacklogSize      Size               `key:"whisk.gpu.backlog-size" default:"256 MiB" min:"1 MiB" doc:"memory for GPU activations that wait, 4 KiB and its parameters for each; when it is full CPU activations wait, too"`
	Record           string             `key:"whisk.gpu.record" doc:"file that records GPU scheduling for gpuwhisk sim replay; an older file is kept as FILE.old"`
	RecordSize       Size               `key:"whisk.gpu.record-size" default:"256 MiB" min:"1 MiB" doc:"the recording ends at this file size"`
	Explain          int                `key:"whisk.gpu.explain" default:"10000" range:"0..1000000" doc:"number of recent activations that the console and gpuwhisk explain can show"`
	ForwardTo        []string           `key:"whisk.gpu.forward-to" format:"invokers" doc:"classic mode: the invokers that have GPUs, such as invoker3,invoker9. An invoker without a usable GPU passes GPU activations on to one of them; empty: it answers them with an error"`
}

// GPUShim configures how containers get the shim.
type GPUShim struct {
	Library string   `key:"whisk.gpu.shim.library" doc:"path of libgpuwhisk.so, or none; empty looks beside the program, in ../lib/gpuwhisk and in build/shim"`
	Dir     string   `key:"whisk.gpu.shim.dir" doc:"directory of the shim's sockets on the containers' host; empty: /var/run/gpuwhisk"`
	Modes   []string `key:"whisk.gpu.shim.modes" format:"modes" default:"managed,vmm,count,off" doc:"shim modes that annotations may request"`
	Log     bool     `key:"whisk.gpu.shim.log" default:"false" doc:"the shim writes to an action's logs why it is disabled"`
}

// ProcessDir returns the directory for the files of the invoker's action processes. temp
// is the directory for temporary files, prefix the prefix of the invoker's containers.
func (c *Config) ProcessDir(prefix, temp string) string {
	dir := filepath.Join(cmp.Or(c.Process.Dir, filepath.Join(temp, "gpuwhisk-processes")), prefix)
	if absolute, err := filepath.Abs(dir); err == nil {
		return absolute
	}
	return dir
}

// SocketDirs returns the candidate directories for the invoker's shim sockets. The
// caller uses the first directory that can be created and in which a socket's path is
// short enough; the last candidate is short enough for every prefix. The sockets of
// processes are beside their other files. The sockets of containers need a directory
// that has the same path on the containers' host.
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

// policy reads the name of a policy, and sets the scheduler's settings and the retention of
// containers to the defaults of that policy.
func (g *GPU) policy() value {
	v := choice(&g.Policy, sched.PolicyNames()...)
	name := v.set
	v.set = func(given []entry) error {
		if err := name(given); err != nil {
			return err
		}
		g.Sched, _ = sched.Defaults(g.Policy) // choice accepted the name, so it is known
		g.Pool.Rule = gpu.LRU
		if g.info().Demand {
			g.Pool.Rule = gpu.DemandAware
		}
		return nil
	}
	return v
}

func (g *GPU) info() sched.Policy {
	info, _ := sched.PolicyNamed(g.Policy) // choice accepted the name, so it is known
	return info
}

// complete applies the settings that depend on several keys.
func (g *GPU) complete(given func(key string) bool) {
	if given("whisk.gpu.overrun") && !given("whisk.gpu.gap") {
		g.Sched.Gap = 0 // a configured overrun is T
	}
}

// retention returns the value of the rule that selects the container to remove when the
// pool is full.
func retention(at *gpu.RetentionPolicy) value {
	return withOwnDescription(field(at, "lru | flow-lru | protect-lru | demand", func(s string) (gpu.RetentionPolicy, error) {
		rule, err := gpu.ParseRetentionPolicy(strings.TrimSpace(s))
		if err != nil {
			return 0, errBad
		}
		return rule, nil
	}, gpu.RetentionPolicy.String))
}
