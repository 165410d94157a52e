package peertest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
)

// built holds the programs and images that were built for tests, by source and name.
var built struct {
	sync.Mutex
	dir    string
	images map[string]bool
}

// Program compiles a program and returns its path. Each program is compiled once,
// without a C library, so that it runs in any image.
func Program(source string, flags ...string) (path string, err error) {
	built.Lock()
	defer built.Unlock()
	if built.dir == "" {
		if built.dir, err = os.MkdirTemp("", "gpuwhisk-programs-"); err != nil {
			return "", err
		}
		AtExit(func() error { return os.RemoveAll(built.dir) })
	}
	path = filepath.Join(built.dir, filepath.Base(source))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", path}, flags, []string{source})...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", source, err, out)
	}
	return path, nil
}

// Image builds an image that contains only a program, as /exec. Each image is built
// once and removed at Exit. The change is a line of a Dockerfile.
func Image(name, program, change string) error {
	built.Lock()
	defer built.Unlock()
	if built.images[name] {
		return nil
	}
	code, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	_ = w.WriteHeader(&tar.Header{Name: "exec", Mode: 0o755, Size: int64(len(code))})
	_, _ = w.Write(code)
	if err := w.Close(); err != nil {
		return err
	}
	cmd := exec.Command("docker", "import", "--change", change, "-", name)
	cmd.Stdin = &root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import image %s: %w: %s", name, err, out)
	}
	if built.images == nil {
		built.images = map[string]bool{}
	}
	built.images[name] = true
	AtExit(func() error {
		if out, err := exec.Command("docker", "rmi", "-f", name).CombinedOutput(); err != nil {
			return fmt.Errorf("remove image %s: %w: %s", name, err, out)
		}
		return nil
	})
	return nil
}
