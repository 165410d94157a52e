package process

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// actAs is the variable that makes the test binary act as a proxy, or as a child of a
// proxy.
const actAs = "GPUWHISK_TEST_ACT_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(actAs) {
	case "proxy":
		serve()
	case "sleeper":
		_ = syscall.Pause()
	case "orphan maker":
		startSleeper(false)
	case "engine":
		strand()
	default:
		os.Exit(m.Run())
	}
}

// wish tells the test's proxy what to do.
type wish struct {
	Stdout   string // printed unchanged
	Stderr   string //
	Quiet    bool   // no sentinels
	Allocate int    // MiB to allocate, without an answer afterwards
	Sleepers int    // children to start
	Keeper   bool   // start a child in its own session that keeps the output open
	Orphan   bool   // start a grandchild in its own session
	Exit     bool   // end without an answer
	Pipe     string // file to replace by a pipe
	Fork     bool   // start a child and wait forever for its exec
}

// state is the proxy's report about itself.
type state struct {
	Environ []string
	Dir     string
	Files   uint64
	PID     int
}

func serve() {
	http.HandleFunc("/run", func(w http.ResponseWriter, r *http.Request) {
		var v wish
		_ = json.NewDecoder(r.Body).Decode(&v)
		grant(v)
		_ = json.NewEncoder(w).Encode(readState())
	})
	l, err := net.Listen("unix", os.Getenv("__OW_PROXY_SOCKET"))
	if err == nil {
		err = http.Serve(l, nil)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func grant(v wish) {
	_, _ = io.WriteString(os.Stdout, v.Stdout)
	_, _ = io.WriteString(os.Stderr, v.Stderr)
	if v.Pipe != "" {
		_ = os.Remove(v.Pipe)
		_ = syscall.Mkfifo(v.Pipe, 0o600)
	}
	for range v.Sleepers {
		startSleeper(false)
	}
	if v.Keeper {
		startSleeper(true)
	}
	if v.Orphan {
		makeOrphan()
	}
	if v.Fork {
		go forkAndWait()
	}
	if v.Exit {
		os.Exit(3)
	}
	if v.Allocate > 0 {
		fill(v.Allocate)
		select {}
	}
	if !v.Quiet {
		fmt.Println(logs.Sentinel)
		fmt.Fprintln(os.Stderr, logs.Sentinel)
	}
}

func fill(mib int) {
	var kept [][]byte
	for range mib {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 512 {
			block[i] = 1
		}
		kept = append(kept, block)
	}
	_ = syscall.Pause()
	runtime.KeepAlive(kept)
}

func startSleeper(session bool) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(without(os.Environ(), actAs), actAs+"=sleeper")
	if cmd.SysProcAttr = (&syscall.SysProcAttr{Setsid: session}); session {
		cmd.Stdout = os.Stdout
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// forkAndWait starts a child like vfork(2): no signal reaches the parent until the child
// has called exec or ended, and this child does neither.
func forkAndWait() {
	pid, _, _ := syscall.RawSyscall6(syscall.SYS_CLONE, syscall.CLONE_VFORK|uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	for pid == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PPOLL, 0, 0, 0)
	}
}

// makeOrphan starts a process in its own session, whose child is orphaned.
func makeOrphan() {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(without(os.Environ(), actAs), actAs+"=orphan maker")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = cmd.Run()
}

func without(environ []string, name string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, name+"=") {
			kept = append(kept, v)
		}
	}
	return kept
}

func readState() state {
	dir, _ := os.Getwd()
	var files syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)
	return state{Environ: os.Environ(), Dir: dir, Files: files.Max, PID: os.Getpid()}
}
