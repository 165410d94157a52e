package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// kept is a directory that outlives the invoker.
type kept struct {
	what, key, dir string
	may            int64 // bytes that may come to lie there
}

// leastRoom is what an invoker needs at its start and to end in order.
const leastRoom = 64 * int64(config.MiB)

// checkState looks at where the invoker keeps its journal with the notes of its
// containers, records that wait, and dead letters.
func checkState(f *Facts) []Finding {
	if !f.configured() {
		return nil
	}
	name := "invoker0"
	if id := f.Config.Identity.ID; id != nil {
		name = fmt.Sprintf("invoker%d", *id)
	}
	s := f.Config.State
	var all []Finding
	for _, k := range []kept{
		{"journal", "whisk.gpu.journal", s.JournalDir(name), int64(s.JournalSize)},
		{"waiting records", "whisk.gpu.records.spool", s.SpoolDir(name), int64(s.SpoolSize)},
		{"dead letters", "whisk.gpu.records.dead-letters", s.DeadLetterDir(name), 0},
	} {
		if k.dir != "" {
			all = append(all, f.judgeKept(k))
		}
	}
	if len(all) == 0 {
		return one(ok("nothing outlives the invoker (whisk.gpu.state=none)"))
	}
	return all
}

func (f *Facts) judgeKept(k kept) Finding {
	way := fmt.Sprintf("give the invoker's user a directory that may be written (whisk.gpu.state, or %s; none does without)", k.key)
	at, err := f.Writable(context.Background(), k.dir)
	if err != nil {
		return fail(fmt.Sprintf("%s: %s cannot be written: %v", k.what, at, err), way)
	}
	space, err := f.diskAt(at)
	if err != nil {
		return warn(fmt.Sprintf("%s: %s: %v", k.what, at, err), "look at the disk of "+at)
	}
	text := fmt.Sprintf("%s: %s can be written, %s of %s free", k.what, k.dir, amount(space.Free), amount(space.Total))
	const room = "make room, or name a directory on a larger disk (whisk.gpu.state)"
	need := max(0, k.may-f.bytesIn(k.dir))
	switch {
	case space.Free < leastRoom:
		return fail(text+"; on a full disk nothing is pulled", room)
	case space.Free < need:
		return warn(fmt.Sprintf("%s; up to %s more may come to lie there, and when the disk is full nothing is pulled", text, amount(need)), room+", or allow less ("+k.key+"-size)")
	}
	return ok(text)
}

// bytesIn is what lies in a directory already.
func (f *Facts) bytesIn(dir string) (sum int64) {
	if f.Files == nil {
		return 0
	}
	_ = fs.WalkDir(f.Files, strings.TrimPrefix(dir, "/"), func(_ string, d fs.DirEntry, err error) error {
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

// writable tells whether this user may make a directory, or write in it where it
// is there. It makes nothing.
func writable(_ context.Context, dir string) (at string, err error) {
	for at = filepath.Clean(dir); ; at = filepath.Dir(at) {
		var s unix.Stat_t
		switch err := unix.Stat(at, &s); {
		case errors.Is(err, unix.ENOENT) && at != "/" && at != ".":
			continue
		case err != nil:
			return at, err
		case s.Mode&unix.S_IFMT != unix.S_IFDIR:
			return at, unix.ENOTDIR
		}
		return at, unix.Access(at, unix.W_OK|unix.X_OK)
	}
}
