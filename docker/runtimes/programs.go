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

// ErrNoProgram means that the interpreter or proxy of a kind is missing on this machine.
var ErrNoProgram = errors.New("no program to run this kind")

// ErrNoFamily means that no proxy serves a kind.
var ErrNoFamily = errors.New("no action proxy for this kind")

// Programs holds the command that starts each proxy, without the proxy's source file. An
// empty command means that the family cannot be served here.
type Programs struct {
	Python []string
	NodeJS []string
	Native []string // the whole command, because the native proxy is a program itself
}

// nativeProgram is the file name of the native proxy.
const nativeProgram = "gpuwhisk-native"

// FindPrograms searches PATH. If python3 is a launcher script, as version managers
// install it, the interpreter behind the script is used instead. So every later start is
// fast, and the started process is the interpreter itself.
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
	if p, err := exec.LookPath(nativeProgram); err == nil {
		found.Native = []string{p}
	}
	return found
}

// launcherTime is far more than a launcher needs on a busy machine.
const launcherTime = 10 * time.Second

// behind asks a launcher script for the executable of its Python. It returns program
// unchanged if the script does not answer in time.
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
		return true // possibly, so ask it
	}
	defer f.Close()
	var first [2]byte
	_, err = io.ReadFull(f, first[:])
	return err != nil || string(first[:]) == "#!"
}

// Command returns the argument vector that starts the proxy for an action kind. dir is
// the directory that Write filled. The proxy listens on the Unix socket in
// __OW_PROXY_SOCKET, else on the address in __OW_PROXY_HOST and __OW_PROXY_PORT, by
// default 0.0.0.0 and 8080. It removes these variables from the action's environment.
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
