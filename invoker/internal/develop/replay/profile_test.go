package replay

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"syscall"
)

// profileVariable is the variable with the directory into which an invoker writes a heap
// profile at each SIGUSR2: `go tool pprof -base 1.heap 2.heap` reports the growth.
const profileVariable = "GPUWHISK_SOAK_PROFILES"

// sweepAtSignal has this process give back the memory that it does not need at
// each SIGUSR1 and SIGUSR2, and write profiles at the latter where they are wanted.
func sweepAtSignal() {
	dir := os.Getenv(profileVariable)
	if dir != "" {
		runtime.MemProfileRate = 16 << 10
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for n := 1; ; {
			why := <-asked
			debug.FreeOSMemory() // collect garbage first, so that the profile is current
			if dir == "" || why != syscall.SIGUSR2 {
				continue
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Fprintf(os.Stderr, "memory: %+v\n", m)
			if err := writeProfile(filepath.Join(dir, fmt.Sprintf("%d.heap", n))); err != nil {
				fmt.Fprintln(os.Stderr, "profile:", err)
			}
			n++
		}
	}()
}

func writeProfile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("heap").WriteTo(f, 0)
}

// output returns a command's output about a process or directory, for a log.
func output(name string, args ...string) string {
	text, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", text, err)
	}
	return string(text)
}
