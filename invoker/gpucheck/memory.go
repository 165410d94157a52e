package gpucheck

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// keep is what is never taken of the card: a tenth, for everything that is not
// in the books. More managed memory than a card has free can hang it.
const keep = 0.9

// take promises device memory to a step, or tells why it cannot be.
func (b *bed) take(bytes int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := int64(keep * float64(b.free))
	if b.taken+bytes > most {
		return skip("not enough free device memory: %s wanted beside %s in use, %s free at the start of which %s may be used",
			size(bytes), size(b.taken), size(b.free), size(most))
	}
	b.taken += bytes
	return nil
}

// fit cuts a size to what the host can take in when it leaves the device, with
// as much again for everything else.
func (b *bed) fit(r *Result, want int64) (int64, error) {
	host, ok := b.s.HostMemory, true
	if host <= 0 {
		host, ok = hostFree()
	}
	if !ok || want <= host/2 {
		return want, nil
	}
	const least = 64 << 20
	if host/2 < least {
		return 0, skip("the host has %s free: too little to swap to", size(host))
	}
	cut := host / 2 &^ (1<<20 - 1)
	r.note("Cut from %s to %s altogether, because the host has %s free (--host-memory says otherwise).", size(want), size(cut), size(host))
	return cut, nil
}

// hostFree is the memory of the host that this process may still use; false
// where that is not told.
func hostFree() (int64, bool) {
	free, ok := memInfo("MemAvailable")
	for _, pair := range [][2]string{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
	} {
		limit, ok1 := number(pair[0])
		used, ok2 := number(pair[1])
		if ok1 && ok2 && (!ok || limit-used < free) {
			free, ok = max(limit-used, 0), true
		}
	}
	return free, ok
}

func number(path string) (int64, bool) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// memInfo is a line of /proc/meminfo, in bytes.
func memInfo(name string) (int64, bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for _, line := range strings.Split(string(text), "\n") {
		var kib int64
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			if _, err := fmt.Sscan(rest, &kib); err == nil {
				return kib << 10, true
			}
		}
	}
	return 0, false
}
