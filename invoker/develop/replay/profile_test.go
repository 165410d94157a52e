package replay

import (
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// profileVariable names the directory into which an invoker writes what lives in
// its heap, at each SIGUSR2: `go tool pprof -base 1.heap 2.heap` reports what grew.
const profileVariable = "REPLAY_PROFILES"

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
			debug.FreeOSMemory() // collects first: what is written is as of then
			if dir == "" || why != syscall.SIGUSR2 {
				continue
			}
			fmt.Fprintln(os.Stderr, "memory:", divided())
			if err := writeProfile(filepath.Join(dir, fmt.Sprintf("%d.heap", n))); err != nil {
				fmt.Fprintln(os.Stderr, "profile:", err)
			}
			n++
		}
	}()
}

// divided reports what this process's memory is for.
func divided() string {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	kib := func(n uint64) uint64 { return n >> 10 }
	text, _ := os.ReadFile("/proc/self/smaps_rollup")
	return fmt.Sprintf("heap %d KiB of %d in use, %d objects, stacks %d, spans and caches %d, collector %d, profiles %d, other %d\n%s",
		kib(m.HeapAlloc), kib(m.HeapInuse), m.HeapObjects, kib(m.StackInuse), kib(m.MSpanInuse+m.MCacheInuse), kib(m.GCSys),
		kib(m.BuckHashSys), kib(m.OtherSys), text)
}

func writeProfile(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("heap").WriteTo(f, 0)
}

// openFiles reports what the open files of a process are, from its directory in
// /proc: sockets by the port at their other end, files by their directory.
func openFiles(proc string) string {
	ports := remotePorts(proc)
	count := map[string]int{}
	open, _ := os.ReadDir(filepath.Join(proc, "fd"))
	for _, fd := range open {
		to, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		kind, inode, _ := strings.Cut(to, ":")
		switch {
		case filepath.IsAbs(to):
			kind = filepath.Base(filepath.Dir(to)) + "/"
		case ports[strings.Trim(inode, "[]")] != "":
			kind = "tcp to " + ports[strings.Trim(inode, "[]")]
		}
		count[kind]++
	}
	var all []string
	for kind, n := range count {
		all = append(all, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// remotePorts are the ports at the other end of a process's sockets, by inode.
func remotePorts(proc string) map[string]string {
	ports := map[string]string{}
	for _, family := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(filepath.Join(proc, "net", family))
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 {
				continue
			}
			_, port, _ := strings.Cut(fields[2], ":")
			if n, err := strconv.ParseUint(port, 16, 16); err == nil {
				ports[fields[9]] = strconv.FormatUint(n, 10)
			}
		}
	}
	return ports
}

// inside reports how many files and bytes lie in each directory below dir.
func inside(dir string) string {
	type count struct{ files, bytes int64 }
	all := map[string]*count{}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // gone meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		name, _ := filepath.Rel(dir, filepath.Dir(path))
		if all[name] == nil {
			all[name] = &count{}
		}
		all[name].files++
		all[name].bytes += info.Size()
		return nil
	})
	var lines []string
	for name, c := range all {
		lines = append(lines, fmt.Sprintf("%s: %d files, %.1f MiB", name, c.files, float64(c.bytes)/(1<<20)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
