package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// checkPort: an invoker may be listening on the port.
func checkPort(s *snapshot) []Finding {
	port := s.Config.Admin.Port
	err := s.Listen(s.ctx, port)
	switch {
	case err == nil:
		return ok("%d is free", port)
	case isInvoker(s.Ping(s.ctx, s.Config.Admin)):
		return ok("an invoker answers on %d already", port)
	}
	return fail("end the program that listens there, or set PORT to another port", "%d: %v", port, err)
}

// checkMemory compares the memory for action containers with the memory of the host.
func checkMemory(s *snapshot) []Finding {
	user, total := int64(s.Config.Pool.UserMemory), s.hostMemory()
	if total == 0 {
		return nil
	}
	text := fmt.Sprintf("action containers may hold %s of %s (CONFIG_whisk_containerPool_userMemory)", amount(user), amount(total))
	const left = int64(config.GiB) // for the system, the engine and the invoker
	switch {
	case user > total:
		return fail("lower it below the host's memory: otherwise the kernel kills containers and other processes", "%s", text)
	case user > total-min(left, total/8):
		return warn("leave about 1 GiB for the system, Docker and the invoker", "%s", text)
	}
	return ok("%s", text)
}

func (s *snapshot) hostMemory() int64 {
	if n := s.docker.MemoryBytes; n > 0 {
		return n
	}
	var kib int64
	_, total, _ := strings.Cut(s.read("proc/meminfo"), "MemTotal:")
	_, _ = fmt.Sscan(total, &kib) // 0: unknown
	return kib * int64(config.KiB)
}

func checkDisk(s *snapshot) []Finding {
	dir := s.docker.Root
	if s.usesContainerd() {
		dir = s.Config.Containerd.StateDir
	}
	if !s.usesContainers() {
		dir = cmp.Or(s.Config.Process.Dir, "/tmp")
	}
	if dir == "" { // the engine did not answer
		return nil
	}
	space, err := s.Disk(s.ctx, dir)
	if err != nil {
		return warn("Docker seems to run elsewhere: check the disk there", "%s: %v", dir, err)
	}
	text := fmt.Sprintf("%s of %s free at %s", amount(space.Free), amount(space.Total), dir)
	const fix = "docker image prune, or a larger disk"
	switch {
	case space.Free < int64(config.GiB):
		return fail(fix, "%s", text)
	case space.Free < 5*int64(config.GiB) || space.Free < space.Total/20:
		return warn(fix, "%s", text)
	}
	return ok("%s", text)
}

// stateDir is a directory that survives the invoker.
type stateDir struct {
	what, key, dir string
	may            config.Size // most bytes that may be stored there
}

// minFree is the space that an invoker needs to start and to stop cleanly.
const minFree = 64 * int64(config.MiB)

// checkState examines the directories of the journal (with the state of containers), of
// waiting records, and of dead letters.
func checkState(s *snapshot) []Finding {
	name, c := s.instance().Topic(), s.Config.State
	all := ofEach([]stateDir{
		{"journal", "whisk.gpu.journal", c.JournalDir(name), c.JournalSize},
		{"waiting records", "whisk.gpu.records.spool", c.SpoolDir(name), c.SpoolSize},
		{"dead letters", "whisk.gpu.records.dead-letters", c.DeadLetterDir(name), 0},
		{"files of containers", "whisk.gpu.containerd.state-dir", s.containerdDir(), 0},
	}, s.judgeStateDir)
	if len(all) == 0 {
		return ok("no state survives the invoker (whisk.gpu.state=none)")
	}
	return all
}

// containerdDir returns the directory of containers' files, "" without containerd.
func (s *snapshot) containerdDir() string {
	if !s.usesContainerd() {
		return ""
	}
	return s.Config.Containerd.StateDir
}

func (s *snapshot) judgeStateDir(k stateDir) []Finding {
	if k.dir == "" {
		return nil
	}
	at, err := s.Writable(s.ctx, k.dir)
	if err != nil {
		return fail("give the invoker's user a writable directory (whisk.gpu.state, or "+k.key+"; none does without)",
			"%s: %s cannot be written: %v", k.what, at, err)
	}
	space, err := s.Disk(s.ctx, at)
	if err != nil {
		return warn("check the disk of "+at, "%s: %s: %v", k.what, at, err)
	}
	text := fmt.Sprintf("%s: %s can be written, %s of %s free", k.what, k.dir, amount(space.Free), amount(space.Total))
	const fix = "make room, or name a directory on a larger disk (whisk.gpu.state)"
	need := int64(k.may) - s.bytesIn(k.dir)
	switch {
	case space.Free < minFree:
		return fail(fix, "%s; on a full disk no activations are pulled", text)
	case space.Free < need:
		return warn(fix+", or allow less ("+k.key+"-size)",
			"%s; up to %s more may be written there, and when the disk is full no activations are pulled", text, amount(need))
	}
	return ok("%s", text)
}

// bytesIn returns the size of the files in a directory.
func (s *snapshot) bytesIn(dir string) (sum int64) {
	_ = fs.WalkDir(s.Files, inRoot(dir), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // missing, or removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
