package demo

import (
	"fmt"
	"os/exec"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Function is an action of the demo.
type Function struct {
	Name       string
	Kind       string
	Code       string
	Parameters map[string]any // that every call gets
	GPU        any            // its gpu annotation, nil for a CPU action
	Rate       float64        // mean calls per second
	Warm       time.Duration  // what a run alone takes when nothing is to be loaded; 0: nobody said
}

// scale divides the times of the paper, so that twenty seconds show what took
// minutes there, and the memory with them: moving it must not take longer in
// proportion than it did.
const scale = 20

// DeviceMemory is the paper's GPU of 16 GB, scaled.
func (m Machine) DeviceMemory() activation.Size {
	return activation.Size((16<<10)/m.memoryScale()) * activation.MB
}

// how says to a person how real the device is.
func (m Machine) how() string {
	if m.Driver {
		return fmt.Sprintf("The GPU is simulated: the real shim moves memory on a fake driver, and runs\n"+
			"take the MQFQ-Sticky paper's times / %d with its memory / %d.", scale, memoryScale)
	}
	return fmt.Sprintf("The GPU is simulated: functions only sleep, for the MQFQ-Sticky paper's\n"+
		"times / %d, and no memory moves (the shim is not built here).", scale)
}

func (m Machine) memoryScale() int {
	if m.Driver {
		return memoryScale
	}
	return scale
}

// Settings are the scheduler's, scaled too: the overrun of 10 s that the paper
// found best, and the 400 MB that a container's CUDA context takes.
func (m Machine) Settings() []string {
	return []string{
		"CONFIG_whisk_gpu_overrun=500 ms",
		fmt.Sprintf("CONFIG_whisk_gpu_contextMemory=%d m", 400/m.memoryScale()),
	}
}

// timed is a function of the paper's Table 1: execution times on a V100, warm
// and cold, in milliseconds. The paper tells no memory but that of FFT; the
// other sizes, in MB, are ours, chosen so that not all six fit into the device
// at once.
type timed struct {
	name       string
	warm, cold int
	memory     int
	rate       float64
}

func table1() []timed {
	return []timed{
		{"imagenet", 2253, 11286, 4096, 3},
		{"roberta", 268, 15481, 5120, 10},
		{"ffmpeg", 4483, 4612, 3072, 1.5},
		{"fft", 897, 3322, 1536, 5},
		{"isoneural", 26, 9963, 2048, 15},
		{"lud", 2050, 2359, 3072, 3},
	}
}

// Machine is what there is to run functions with.
type Machine struct {
	Python, Node bool
	// Driver is true where GPU functions run under the shim on the fake
	// driver. Program is then an executable that uses the GPU, or empty.
	Driver  bool
	Program string
}

// Here looks for the languages of this machine.
func Here() Machine {
	return Machine{Python: onPath("python3"), Node: onPath("node", "nodejs")}
}

// Catalogue is what the demo deploys on a machine: two CPU actions and six GPU
// functions, in the languages that are there; nothing if there is none. It
// offers the device seven tenths of what two invocations at a time can use.
func Catalogue(m Machine) ([]Function, error) {
	if !m.Python && !m.Node {
		return nil, nil
	}
	all := []Function{hello(m.Node), primes(m.Python)}
	for _, t := range table1() {
		f, err := t.on(m)
		if err != nil {
			return nil, err
		}
		f.Warm = time.Duration(t.warm) * time.Millisecond / scale
		all = append(all, f)
	}
	return all, nil
}

// on picks the form in which a function runs on a machine.
func (t timed) on(m Machine) (Function, error) {
	switch {
	case !m.Driver || !m.Python:
		return t.function(m.Python), nil
	case m.Program != "" && t.name == "ffmpeg":
		return t.asProgram(m.Program)
	}
	return t.onDriver(), nil
}

func onPath(names ...string) bool {
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			return true
		}
	}
	return false
}

const (
	nodeKind   = "nodejs:20"
	pythonKind = "python:3"
	gpuKind    = "python:3-gpu"
	nativeKind = "native:1"
)

func hello(node bool) Function {
	f := Function{Name: "hello", Kind: nodeKind, Rate: 10,
		Code: "function main(args) {\n  console.log('greeting', args.name);\n  return { greeting: 'Hello ' + args.name };\n}\n"}
	if !node {
		f.Kind, f.Code = pythonKind, "def main(args):\n    print('greeting', args['name'])\n    return {'greeting': 'Hello ' + args['name']}\n"
	}
	return f
}

func primes(python bool) Function {
	f := Function{Name: "primes", Kind: pythonKind, Rate: 5,
		Code: "def main(args):\n    found = [n for n in range(2, 2000) if all(n % d for d in range(2, int(n ** 0.5) + 1))]\n    return {'primes': len(found)}\n"}
	if !python {
		f.Kind, f.Code = nodeKind, "function main() {\n  let found = 0;\n  for (let n = 2; n < 2000; n++) {\n    let prime = true;\n"+
			"    for (let d = 2; d * d <= n; d++) if (n % d === 0) { prime = false; break; }\n    if (prime) found++;\n  }\n  return { primes: found };\n}\n"
	}
	return f
}

// function sleeps its cold part when it is loaded and its warm part at each
// run, which is when a real one loads its model and uses it.
func (t timed) function(python bool) Function {
	warm := time.Duration(t.warm) * time.Millisecond / scale
	load := time.Duration(t.cold-t.warm) * time.Millisecond / scale
	f := Function{Name: t.name, GPU: map[string]any{"memory": fmt.Sprintf("%d MB", t.memory/scale)}, Rate: t.rate}
	if python {
		f.Kind = gpuKind
		f.Code = fmt.Sprintf("import time\n\ntime.sleep(%g)  # loading\n\ndef main(args):\n    time.sleep(%g)\n    return {'function': '%s'}\n",
			load.Seconds(), warm.Seconds(), t.name)
		return f
	}
	f.Kind = nodeKind
	f.Code = fmt.Sprintf("const sleep = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);\n"+
		"sleep(%g); // loading\n\nfunction main() {\n  sleep(%g);\n  return { function: '%s' };\n}\n",
		float64(load.Microseconds())/1000, float64(warm.Microseconds())/1000, t.name)
	return f
}
