package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// checkPort: what has the port may be an invoker.
func checkPort(s *snapshot) []Finding {
	port := s.Config.Admin.Port
	err := s.Listen(s.ctx, port)
	switch {
	case err == nil:
		return ok("%d is free", port)
	case isInvoker(s.Ping(s.ctx, s.Config.Admin)):
		return ok("an invoker answers on %d already", port)
	}
	return fail("end what listens there, or set PORT to another one", "%d: %v", port, err)
}

// checkMemory compares what action containers may hold with what there is.
func checkMemory(s *snapshot) []Finding {
	user, total := int64(s.Config.Pool.UserMemory), s.hostMemory()
	if total == 0 {
		return nil
	}
	text := fmt.Sprintf("action containers may hold %s of %s (CONFIG_whisk_containerPool_userMemory)", amount(user), amount(total))
	const left = int64(config.GiB) // for the system, the engine and the invoker
	switch {
	case user > total:
		return fail("lower it below the host's memory: the kernel would end containers and worse", "%s", text)
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
	if !s.usesDocker() {
		dir = cmp.Or(s.Config.Process.Dir, "/tmp")
	}
	if dir == "" { // the engine does not answer
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

// stateDir is a directory that outlives the invoker.
type stateDir struct {
	what, key, dir string
	may            config.Size // bytes that may come to lie there
}

// minFree is what an invoker needs at its start and to end in order.
const minFree = 64 * int64(config.MiB)

// checkState examines where the invoker keeps its journal with the state of its
// containers, records that wait, and dead letters.
func checkState(s *snapshot) []Finding {
	name, c := s.instance().Topic(), s.Config.State
	all := ofEach([]stateDir{
		{"journal", "whisk.gpu.journal", c.JournalDir(name), c.JournalSize},
		{"waiting records", "whisk.gpu.records.spool", c.SpoolDir(name), c.SpoolSize},
		{"dead letters", "whisk.gpu.records.dead-letters", c.DeadLetterDir(name), 0},
	}, s.judgeStateDir)
	if len(all) == 0 {
		return ok("nothing outlives the invoker (whisk.gpu.state=none)")
	}
	return all
}

func (s *snapshot) judgeStateDir(k stateDir) []Finding {
	if k.dir == "" {
		return nil
	}
	at, err := s.Writable(s.ctx, k.dir)
	if err != nil {
		return fail("give the invoker's user a directory that may be written (whisk.gpu.state, or "+k.key+"; none does without)",
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
		return fail(fix, "%s; on a full disk nothing is pulled", text)
	case space.Free < need:
		return warn(fix+", or allow less ("+k.key+"-size)",
			"%s; up to %s more may come to lie there, and when the disk is full nothing is pulled", text, amount(need))
	}
	return ok("%s", text)
}

// bytesIn is what lies in a directory already.
func (s *snapshot) bytesIn(dir string) (sum int64) {
	_ = fs.WalkDir(s.Files, inRoot(dir), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // not there yet, or gone meanwhile
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
