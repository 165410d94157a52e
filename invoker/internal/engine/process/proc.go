package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// procPath returns the path of a file of a process below /proc.
func procPath(pid int, file string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), file)
}

// allPIDs returns the pids of all processes.
func allPIDs() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // on an error, use the names that were read
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat holds the needed fields of /proc/PID/stat (proc_pid_stat(5)).
type stat struct {
	parent  int
	session int
	zombie  bool
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return stat{}, fmt.Errorf("read state of process %d: %w", pid, err)
	}
	return parseStat(text)
}

// parseStat parses the fields after the program's name, which may contain parentheses
// and spaces.
func parseStat(text []byte) (stat, error) {
	name := bytes.LastIndexByte(text, ')')
	fields := strings.Fields(string(text[name+1:]))
	if name < 0 || len(fields) < 4 {
		return stat{}, fmt.Errorf("state of process is cut off: %q", text)
	}
	parent, err1 := strconv.Atoi(fields[1])
	session, err2 := strconv.Atoi(fields[3])
	if err1 != nil || err2 != nil {
		return stat{}, fmt.Errorf("state of process is unreadable: %q", text)
	}
	return stat{parent: parent, session: session, zombie: fields[0] == "Z"}, nil
}

// privateBytes returns the memory of a process without shared memory. Shared memory,
// mostly libraries, would otherwise be counted once per process.
func privateBytes(pid int) int64 {
	text, err := os.ReadFile(procPath(pid, "statm"))
	if err != nil {
		return 0
	}
	var size, resident, shared int64
	if n, _ := fmt.Sscan(string(text), &size, &resident, &shared); n < 3 {
		return 0
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// becomesAnother reports whether a process without an environment is in the middle of an
// exec: it has memory, unlike kernel threads and zombies, but no arguments yet.
func becomesAnother(pid int) bool {
	memory, err := os.ReadFile(procPath(pid, "statm"))
	if err != nil || bytes.HasPrefix(memory, []byte("0 ")) {
		return false
	}
	args, err := os.ReadFile(procPath(pid, "cmdline"))
	return err == nil && len(args) == 0
}

// newestPID returns the last number given to a process or thread, 0 if it is unreadable.
// While it is unchanged, nothing was started on this machine.
func newestPID() int {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	newest, _ := strconv.Atoi(string(bytes.TrimSpace(text[bytes.LastIndexByte(text, ' ')+1:])))
	return newest
}
