package demo

import (
	"embed"
	"fmt"
	"os/exec"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Function is an action of the demo.
type Function struct {
	Name, Kind, Code string
	Parameters       map[string]any // of every call
	GPU              any            // its gpu annotation, nil for a CPU action
	Rate             float64        // mean calls per second
	Warm             time.Duration  // of a run alone when nothing is to be loaded; 0: unknown
}

// Kinds of the actions.
const (
	nodeKind   = "nodejs:20"
	pythonKind = "python:3"
	gpuKind    = "python:3-gpu"
	nativeKind = "native:1"
)

// timeScale divides the times of the paper, so that twenty seconds show the effects of
// minutes. It also divides the memory sizes, so that moves take the same share of the
// time. If functions really fill their memory, driverScale divides the sizes instead,
// because a laptop's memory stands for the device's.
const (
	timeScale   = 20
	driverScale = 200
)

// Machine holds the means of the machine for running functions.
type Machine struct {
	Python, Node bool
	// Driver is true where GPU functions run in Python under the shim on the fake
	// driver. Program is then an executable that uses the GPU, in Base64, or empty.
	Driver  bool
	Program string
}

// Here finds the languages of this machine.
func Here() Machine {
	return Machine{Python: onPath("python3"), Node: onPath("node") || onPath("nodejs")}
}

func onPath(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// DeviceMemory is the paper's GPU of 16 GB, scaled.
func (m Machine) DeviceMemory() activation.Size {
	return activation.Size((16<<10)/m.memoryScale()) * activation.MB
}

// Settings are the scheduler's, scaled too: the overrun of 10 s that the paper
// found best, and the 400 MB that a container's CUDA context takes.
func (m Machine) Settings() []string {
	return []string{
		"CONFIG_whisk_gpu_overrun=500 ms",
		fmt.Sprintf("CONFIG_whisk_gpu_contextMemory=%d m", 400/m.memoryScale()),
	}
}

func (m Machine) memoryScale() int {
	if m.Driver {
		return driverScale
	}
	return timeScale
}

// measured is a function in the paper's Table 1, with its warm and cold execution times
// on a V100 in milliseconds. Except for FFT the paper does not give the memory. The
// other sizes, in MB, are ours; the six functions do not fit into the device together.
type measured struct {
	name       string
	warm, cold int
	memoryMB   int
	rate       float64
}

// table1 is the workload. It uses seven tenths of the capacity of a device that runs two
// invocations at a time.
var table1 = [...]measured{
	{"imagenet", 2253, 11286, 4096, 3},
	{"roberta", 268, 15481, 5120, 10},
	{"ffmpeg", 4483, 4612, 3072, 1.5},
	{"fft", 897, 3322, 1536, 5},
	{"isoneural", 26, 9963, 2048, 15},
	{"lud", 2050, 2359, 3072, 3},
}

// Catalogue returns the functions that the demo deploys on a machine: two CPU actions
// and six GPU functions in the installed languages. It returns nil if no language is
// installed.
func Catalogue(m Machine) []Function {
	if !m.Python && !m.Node {
		return nil
	}
	all := []Function{cpuAction("hello", 10, m.Node), cpuAction("primes", 5, !m.Python)}
	for _, f := range table1 {
		all = append(all, f.on(m))
	}
	return all
}

//go:embed functions
var sources embed.FS

// source is a file of functions/.
func source(name string) string {
	text, err := sources.ReadFile("functions/" + name)
	if err != nil {
		panic(err) // it is not among the files of this package
	}
	return string(text)
}

func cpuAction(name string, rate float64, node bool) Function {
	if node {
		return Function{Name: name, Kind: nodeKind, Code: source(name + ".js"), Rate: rate}
	}
	return Function{Name: name, Kind: pythonKind, Code: source(name + ".py"), Rate: rate}
}

// on makes the function for a machine: on the driver, as an executable, or asleep.
// The time that a cold start takes longer is spent when it is loaded, as a real
// one loads its model then.
func (f measured) on(m Machine) Function {
	warm := time.Duration(f.warm) * time.Millisecond / timeScale
	load := time.Duration(f.cold-f.warm) * time.Millisecond / timeScale
	size := (f.memoryMB << 20) / m.memoryScale()
	made := Function{Name: f.name, Kind: gpuKind, Rate: f.rate, Warm: warm, GPU: map[string]any{"memory": fmt.Sprintf("%d KB", size>>10)}}
	made.Code = fmt.Sprintf("WARM, LOAD, NAME = %g, %g, %q\n", warm.Seconds(), load.Seconds(), f.name)
	switch {
	case m.Program != "" && f.name == "ffmpeg":
		// An executable is started for each run and keeps nothing on the device, as
		// ffmpeg does.
		made.Kind, made.Code = nativeKind, m.Program
		made.Parameters = map[string]any{"bytes": size, "ms": f.warm / timeScale}
	case m.Driver:
		made.Code += fmt.Sprintf("SIZE = %d\n", size) + source("driver.py") + source("touch.py")
	case m.Python:
		made.Code += source("sleep.py")
	default:
		made.Kind = nodeKind
		made.Code = fmt.Sprintf("const WARM = %g, LOAD = %g, NAME = %q;\n", warm.Seconds(), load.Seconds(), f.name) + source("sleep.js")
	}
	return made
}
