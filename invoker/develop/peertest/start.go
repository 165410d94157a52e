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

// Start starts a process that the kernel kills when this process ends for any reason.
// A test that ran out of time therefore leaves no process running, not even a
// suspended one.
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

// orders leads to the thread that starts processes. That thread lives as long as this
// process, because the kernel sends its signal when the thread that started the
// process ends (prctl(2), PR_SET_PDEATHSIG), and Go ends threads.
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

// Prepare starts the goroutine that Start needs. Tests that count goroutines call it
// first.
func Prepare() { orders() }

// Processes returns the command lines of the processes whose environment contains the
// text, by process id. Zombies are left out.
func Processes(text string) map[int]string {
	found := map[int]string{}
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range all {
		env, _ := os.ReadFile(name) // fails if the process has ended or belongs to another user
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil && len(command) > 0 && bytes.Contains(env, []byte(text)) {
			found[pid] = strings.ReplaceAll(string(command), "\x00", " ")
		}
	}
	return found
}
