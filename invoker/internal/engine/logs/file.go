package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// checkEvery is how many reads at the end of a log file pass between two checks
// whether it was rotated, cut or removed. The first of a collection is at its
// fourth such read, after a millisecond: late output mostly comes sooner.
const (
	checkEvery = 8
	firstCheck = 4
)

// File reads a json-file log where it lies on disk. It keeps the file open, so
// that a rotated one is read to its end.
type File struct {
	path   string
	file   *os.File
	offset int64
	idle   int // reads at the end of the file since the last check
	gone   int // checks that found no file at the path, one after the other
}

// OpenFile opens a container's log file. Later output is read even if the file is
// rotated before the first reading.
func OpenFile(path string) (*File, error) {
	file, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	return &File{path: path, file: file}, nil
}

// openRegular opens a regular file and refuses all other kinds. An action that runs as a
// process can replace its log with a pipe, and opening a pipe would block.
func openRegular(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("open log file: %w", err)
	}
	return file, nil
}

// Begin begins a collection where the last one ended.
func (f *File) Begin(context.Context, bool) error {
	f.idle, f.gone = 0, 0
	if f.file == nil {
		return fmt.Errorf("log file: %w", fs.ErrClosed)
	}
	return nil
}

// Skip goes to the end of the newest file. The log may have been rotated since the open
// file was opened. Between the two steps of a rotation, the open file is the newest.
func (f *File) Skip(context.Context) error {
	if newest, err := openRegular(f.path); err == nil {
		_ = f.file.Close()
		f.file = newest
	}
	info, err := f.file.Stat()
	if err != nil {
		return fmt.Errorf("inspect log file: %w", err)
	}
	f.offset = info.Size()
	return nil
}

// Read returns the next bytes of the file and of the files that replaced it by rotation.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.readAt(p)
	if n > 0 || err != nil {
		return n, err
	}
	f.idle++
	if f.idle%checkEvery != firstCheck {
		return 0, nil
	}
	return f.check(p)
}

func (f *File) readAt(p []byte) (int, error) {
	n, err := f.file.ReadAt(p, f.offset)
	f.offset += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read log file: %w", err)
	}
	return n, nil
}

// check finds out whether the path still leads to the open file.
func (f *File) check(p []byte) (int, error) {
	own, err := f.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("inspect log file: %w", err)
	}
	if own.Size() < f.offset { // cut: the driver keeps one file only
		f.offset = 0
		return 0, errLost
	}
	now, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.missing()
	case err != nil:
		return 0, fmt.Errorf("inspect log file: %w", err)
	}
	f.gone = 0
	if os.SameFile(own, now) {
		return 0, nil
	}
	return f.follow(p, own)
}

// missing ends the reading when the file stays away. Between the two steps of
// a rotation it is away for a moment.
func (f *File) missing() (int, error) {
	f.gone++
	if f.gone < 3 {
		return 0, nil
	}
	return 0, io.EOF
}

// follow goes over to the file that took the place of the open one, once that is
// read to its end. It returns errLost if a file in between may have been deleted.
func (f *File) follow(p []byte, own fs.FileInfo) (int, error) {
	if n, err := f.readAt(p); n > 0 || err != nil {
		return n, err
	}
	next, lost := f.successor(own)
	if next == nil {
		return 0, nil // rotated once more just now, which the next check sees, or no log
	}
	_ = f.file.Close()
	f.file = next
	f.offset, f.idle = 0, 0
	if lost {
		return 0, errLost
	}
	return f.readAt(p)
}

// successor opens the file after the open one. Docker renames the log to PATH.1, PATH.1
// to PATH.2 and so on, and deletes the oldest file. If the open file has none of these
// names, it was deleted, perhaps together with later files; then the oldest existing
// file is next, and lost is true. The file is nil while a rotation is in progress.
func (f *File) successor(own fs.FileInfo) (next *os.File, lost bool) {
	n, oldest := f.rotated(own)
	lost = n == 0
	if lost {
		n = oldest + 1
	}
	next, err := openRegular(f.name(n - 1))
	if err != nil {
		return nil, false
	}
	if still, _ := f.rotated(own); !lost && still != n {
		_ = next.Close()
		return nil, false
	}
	return next, lost
}

// rotated returns the number in the name of a rotated file, 0 if it has none, and the
// number of the oldest rotated file.
func (f *File) rotated(own fs.FileInfo) (number, oldest int) {
	for n := 1; ; n++ {
		info, err := os.Lstat(f.name(n))
		if err != nil {
			return number, n - 1
		}
		if os.SameFile(own, info) {
			number = n
		}
	}
}

// name returns the name of the log after it was rotated n times.
func (f *File) name(n int) string {
	if n == 0 {
		return f.path
	}
	return f.path + "." + strconv.Itoa(n)
}

// clone returns a reader that stands at the same place and moves on by itself.
func (f *File) clone() (*File, error) {
	fd, err := unix.FcntlInt(f.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("duplicate log file: %w", err)
	}
	return &File{path: f.path, file: os.NewFile(uintptr(fd), f.path), offset: f.offset}, nil
}

// End leaves the file open for the next activation.
func (f *File) End() {}

// Close closes the file.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}
