package peertest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Start starts a process that the kernel kills when this one ends, however that
// comes: a test that ran out of time leaves nothing running, not even a process
// that stands still.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	o := order{cmd, make(chan error, 1)}
	orders() <- o
	return <-o.done
}

type order struct {
	cmd  *exec.Cmd
	done chan error
}

// orders goes to the thread that starts processes and lives as long as this
// process: the kernel's signal comes with the end of the thread that started one
// (prctl(2), PR_SET_PDEATHSIG), and Go ends threads.
var orders = sync.OnceValue(func() chan order {
	to := make(chan order)
	go func() {
		runtime.LockOSThread()
		for o := range to {
			o.done <- o.cmd.Start()
		}
	}()
	return to
})

// Prepare lets what Start needs begin, for tests that count goroutines.
func Prepare() { orders() }

// Processes are those, by their numbers, whose environment has a text, with their
// command lines. One that has ended and was not waited for is none of them.
func Processes(text string) map[int]string {
	found := map[int]string{}
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		env, _ := os.ReadFile(name) // gone meanwhile, or not ours
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && len(command) > 0 && bytes.Contains(env, []byte(text)) {
			found[pid] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return found
}
