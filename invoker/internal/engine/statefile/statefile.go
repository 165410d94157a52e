// Package statefile stores the state of each container in a file on disk. The next
// process of the invoker reads the files to adopt warm containers. The invoker decides
// about the states and about adoption.
//
// A file has one line of fixed length that is overwritten in place, and one line of
// JSON that never changes:
//
//	r 1763776800000000000 00000000a0000000 00000000a0000000 0000000019000000
//	{"version":1,"id":"8f2c...","name":"wsk00_7_guest_hello",...}
//
// The first line has the container's activity, the start of the activity in Unix
// nanoseconds, and the bytes of device memory that are allocated, resident and used by
// contexts. One system call writes the line, so after a crash the file has either the
// old or the new line. The package starts no goroutines.
package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

const (
	version    = 1 // of the format; files of another version are removed
	suffix     = ".note"
	maxSize    = 64 << 10 // of a file that is read
	headFormat = "%c %019d %016x %016x %016x\n"
	headSize   = 1 + 1 + 19 + 3*17 + 1
)

// Dir is a directory of state files. It may be used from many goroutines, for one
// container by one at a time. A slow disk delays the call for its container alone.
type Dir struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	open   map[string]*os.File // by the container's name
	failed bool                // it was logged that state files cannot be written
}

// Open makes the directory, for this user alone, and checks that files can be
// written there.
func Open(path string, log *slog.Logger) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of container states: %w", err)
	}
	probe, err := os.CreateTemp(path, ".probe")
	if err != nil {
		return nil, fmt.Errorf("write to directory of container states: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("write to directory of container states: %w", err)
	}
	return &Dir{path: path, log: log, open: map[string]*os.File{}}, nil
}

// Close closes the files. They stay on disk.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, f := range d.open {
		errs = append(errs, f.Close())
	}
	clear(d.open)
	return errors.Join(errs...)
}

// Write writes the whole state of a container.
func (d *Dir) Write(s container.StateFile) {
	d.Drop(s.Name)
	f, err := d.write(s)
	if err != nil {
		d.fail(s.Name, err)
		return
	}
	d.store(s.Name, f)
}

func (d *Dir) store(name string, f *os.File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[name] = f
}

// write gives the file its name once it is complete.
func (d *Dir) write(s container.StateFile) (*os.File, error) {
	text, err := encode(s)
	if err != nil {
		return nil, err
	}
	path := d.file(s.Name)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path+".new"))
	}
	return f, nil
}

// SetActivity writes the activity of a container. It opens the file of an earlier
// process if necessary.
func (d *Dir) SetActivity(name string, is container.Activity, since time.Time, m container.DeviceMemory) {
	d.mu.Lock()
	f := d.open[name]
	d.mu.Unlock()
	var err error
	if f == nil {
		if f, err = os.OpenFile(d.file(name), os.O_RDWR, 0); err == nil {
			d.store(name, f)
		}
	}
	if err == nil {
		_, err = f.WriteAt(appendHead(nil, is, since, m), 0)
	}
	if err != nil {
		d.fail(name, err)
	}
}

// fail removes a state file that could not be written: a container without one is
// removed by the next process, one with a wrong state might be used. The error is
// logged once.
func (d *Dir) fail(name string, err error) {
	removeErr := d.remove(name)
	d.mu.Lock()
	logged := d.failed
	d.failed = true
	d.mu.Unlock()
	if logged && removeErr == nil {
		return
	}
	d.log.Error("state of a container cannot be written: the next process will not adopt it",
		"container", name, "error", errors.Join(err, removeErr))
}

// Drop removes a container's state file.
func (d *Dir) Drop(name string) {
	if err := d.remove(name); err != nil {
		d.log.Error("remove the state file of a container", "container", name, "error", err)
	}
}

func (d *Dir) remove(name string) error {
	d.mu.Lock()
	f := d.open[name]
	delete(d.open, name)
	d.mu.Unlock()
	if f != nil {
		_ = f.Close() // the content does not matter any more
	}
	if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// file is the path of a container's state file. Names of containers consist of
// letters, digits and a few signs.
func (d *Dir) file(name string) string {
	return filepath.Join(d.path, strings.ReplaceAll(name, "/", "_")+suffix)
}

// Read returns the states that an earlier process wrote, and removes files that
// cannot be used.
func (d *Dir) Read() []container.StateFile {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		d.log.Warn("read states of containers", "error", err)
		return nil
	}
	var all []container.StateFile
	for _, e := range entries {
		s, err := d.read(e.Name())
		if err == nil {
			all = append(all, s)
			continue
		}
		d.log.Warn("state file of a container cannot be used", "file", e.Name(), "error", err)
		_ = os.Remove(filepath.Join(d.path, e.Name())) // else it is read again next time
	}
	return all
}

func (d *Dir) read(file string) (container.StateFile, error) {
	f, err := os.Open(filepath.Join(d.path, file))
	if err != nil {
		return container.StateFile{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize))
	if err != nil {
		return container.StateFile{}, err
	}
	s, err := decode(text)
	if err == nil && filepath.Base(d.file(s.Name)) != file {
		err = errors.New("it is of another container")
	}
	return s, err
}

type body struct {
	Version int `json:"version"`
	container.StateFile
}

func encode(s container.StateFile) ([]byte, error) {
	text, err := json.Marshal(body{version, s})
	if err != nil {
		return nil, err
	}
	return append(append(appendHead(nil, s.Activity, s.Since, s.DeviceMemory), text...), '\n'), nil
}

// appendHead appends the first line. No number in it is negative.
func appendHead(b []byte, is container.Activity, since time.Time, m container.DeviceMemory) []byte {
	return fmt.Appendf(b, headFormat, is, max(since.UnixNano(), 0), max(m.Allocated, 0), max(m.Resident, 0), max(m.Context, 0))
}

func decode(text []byte) (s container.StateFile, err error) {
	if len(text) < headSize || text[headSize-1] != '\n' || text[len(text)-1] != '\n' {
		return s, errors.New("it is cut off")
	}
	var is byte
	var since int64
	var m container.DeviceMemory
	_, err = fmt.Sscanf(string(text[:headSize]), headFormat, &is, &since, &m.Allocated, &m.Resident, &m.Context)
	if err != nil {
		return s, fmt.Errorf("its first line: %w", err)
	}
	b := body{}
	d := json.NewDecoder(bytes.NewReader(text[headSize:]))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return s, fmt.Errorf("its second line: %w", err)
	}
	switch {
	case b.Version != version:
		return s, fmt.Errorf("version %d, this program writes %d", b.Version, version)
	case b.Name == "" || b.ID == "" || b.MemoryMB <= 0 || b.Concurrency < 1:
		return s, errors.New("something is missing in it")
	case since < 0 || m.Allocated < 0 || m.Resident < 0 || m.Context < 0:
		return s, errors.New("a number in it is negative")
	}
	s = b.StateFile
	s.Activity, s.Since, s.DeviceMemory = container.Activity(is), time.Unix(0, since), m
	return s, nil
}
