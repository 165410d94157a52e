package gpucheck

import (
	"context"
	"os/exec"
	"path/filepath"
	"time"
)

// framework is a way to the device that functions take, with its worker.
type framework struct {
	name, module, script string
	env                  []string
	// movable: what it allocates becomes managed memory and can be swapped.
	// Else the shim only counts it.
	movable bool
	graphs  bool
}

func torchDefault() framework {
	return framework{"PyTorch, default allocator", "torch", "torch_worker.py", nil, true, true}
}

func cupyDefault() framework {
	return framework{"CuPy, default pool", "cupy", "cupy_worker.py", nil, true, true}
}

// torchConf sets PyTorch's allocator, by its newer name and its older one.
func torchConf(conf string) []string {
	return []string{"PYTORCH_ALLOC_CONF=" + conf, "PYTORCH_CUDA_ALLOC_CONF=" + conf}
}

func frameworks() []framework {
	return []framework{
		torchDefault(),
		{"PyTorch, expandable segments", "torch", "torch_worker.py", torchConf("expandable_segments:True"), false, true},
		{"PyTorch, cudaMallocAsync", "torch", "torch_worker.py", torchConf("backend:cudaMallocAsync"), false, true},
		cupyDefault(),
		{"CuPy, asynchronous pool", "cupy", "cupy_worker.py", []string{"GPUWHISK_CHECK_POOL=async"}, false, true},
		// Its arena may be managed or not, by version.
		{"JAX", "jax", "jax_worker.py", []string{"XLA_PYTHON_CLIENT_PREALLOCATE=false"}, false, false},
	}
}

// frameworks tells whether the driver serves them: they need more than the fake
// one has.
func (b *bed) frameworks() bool { return !b.fake || b.s.frameworks }

// importable tells whether Python knows a module, without loading it.
func (b *bed) importable(ctx context.Context, module string) bool {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	const look = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
	cmd := exec.CommandContext(ctx, b.s.Python, "-c", look, module)
	cmd.Env = b.env()
	return cmd.Run() == nil
}

// warm loads the frameworks once while other steps run, so that their files
// lie in memory when they are waited for. It does not touch the device. The
// returned function ends it and awaits it.
func (b *bed) warm(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, module := range []string{"torch", "cupy", "jax"} {
			cmd := execCommand(ctx, []string{b.s.Python, "-B", "-c", "import " + module}, b.env())
			_ = cmd.Run() // what cannot be loaded is found out by the steps
		}
	}()
	return func() { cancel(); <-ended }
}

// python is the command line of a worker. It leaves no compiled files behind.
func (b *bed) python(script string) []string {
	return []string{b.s.Python, "-B", filepath.Join(b.progs.scripts, script)}
}
