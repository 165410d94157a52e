package runtimes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNoProgram is answered for a kind whose interpreter or proxy is not on
// this machine.
var ErrNoProgram = errors.New("no program to run this kind")

// ErrNoFamily is answered for a kind that no proxy serves.
var ErrNoFamily = errors.New("no action proxy for this kind")

// Programs are the command lines, without the proxy's own source, that start
// each proxy. An empty one means that the family cannot be served here.
type Programs struct {
	Python []string
	NodeJS []string
	Native []string // the whole command: the native proxy is a program itself
}

// NativeProgram is the name of the native proxy's program.
const NativeProgram = "gpuwhisk-native"

// FindPrograms searches PATH. A Python that is a launcher script, as version
// switchers install, is replaced by the interpreter behind it, so that every
// later start is fast and the process that starts is the one that stays.
func FindPrograms(ctx context.Context) Programs {
	var found Programs
	if p, err := exec.LookPath("python3"); err == nil {
		found.Python = []string{behind(ctx, p)}
	}
	for _, name := range []string{"node", "nodejs"} {
		if p, err := exec.LookPath(name); err == nil {
			found.NodeJS = []string{p}
			break
		}
	}
	if p, err := exec.LookPath(NativeProgram); err == nil {
		found.Native = []string{p}
	}
	return found
}

// launcherTime is far beyond what a launcher takes on a busy machine.
const launcherTime = 10 * time.Second

// behind asks a Python that is a script which executable it starts. The path given
// stays when that does not answer in time.
func behind(ctx context.Context, program string) string {
	if !isScript(program) {
		return program
	}
	ctx, cancel := context.WithTimeout(ctx, launcherTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-c", "import sys; print(sys.executable)")
	cmd.WaitDelay = time.Second // for children that keep its output open
	out, err := cmd.Output()
	name := strings.TrimSpace(string(out))
	if err != nil || !filepath.IsAbs(name) {
		return program
	}
	return name
}

func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true // perhaps: it is asked
	}
	defer f.Close()
	var first [2]byte
	_, err = io.ReadFull(f, first[:])
	return err != nil || string(first[:]) == "#!"
}

// Command gives the argument vector that starts the proxy for an action kind.
// dir is the directory that Write filled. The proxy listens on the Unix socket in
// __OW_PROXY_SOCKET, else on the address in __OW_PROXY_HOST and __OW_PROXY_PORT, by default
// 0.0.0.0 and 8080. It removes these from the action's environment.
func (p Programs) Command(dir, kind string) ([]string, error) {
	family, ok := FamilyOf(kind)
	if !ok {
		return nil, fmt.Errorf("start proxy for kind %q: %w", kind, ErrNoFamily)
	}
	program := map[Family][]string{Python: p.Python, NodeJS: p.NodeJS, Native: p.Native}[family]
	if len(program) == 0 {
		return nil, fmt.Errorf("start proxy for kind %q: %w", kind, ErrNoProgram)
	}
	argv := slices.Clone(program)
	if source := family.source(); source != "" {
		argv = append(argv, filepath.Join(dir, filepath.FromSlash(source)))
	}
	return argv, nil
}
