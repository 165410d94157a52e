// Package warmth keeps notes about containers on disk, a file each, so that the
// next process finds out which of them are warm, for what, and whether they
// rest. It decides nothing: whoever writes and reads them does.
//
// A file is one line that changes in place, of a fixed length, and one of JSON
// that does not:
//
//	r 1763776800000000000 00000000a0000000 00000000a0000000 0000000019000000
//	{"version":1,"id":"8f2c...","name":"wsk00_7_guest_hello",...}
//
// What it is doing, since when (to a second), and what it holds of its device.
// The first line is memory that the system shares with the file, of which the
// letter changes last (headline), so the death of the process leaves the old, the
// new or a container that is at work; a loss of power also ends the containers. It
// starts no goroutine.
package warmth

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

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// version is told in each note. A note of another one is of no use.
const version = 1

// maxNote bounds a file that is read.
const maxNote = 64 << 10

// Dir is a directory of notes. It may be used from many goroutines, for one
// container by one at a time: then who waits for the disk holds up no other.
type Dir struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	open   map[string]*headline // by the container's name
	failed bool                 // it was told that notes cannot be written
}

// Open makes the directory, for this user alone. Its error says whether notes
// can be written there.
func Open(path string, log *slog.Logger) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of container notes: %w", err)
	}
	probe, err := os.CreateTemp(path, ".probe")
	if err != nil {
		return nil, fmt.Errorf("write to directory of container notes: %w", err)
	}
	if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
		return nil, fmt.Errorf("write to directory of container notes: %w", err)
	}
	return &Dir{path: path, log: log, open: map[string]*headline{}}, nil
}

// Close closes the files. The notes stay.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, h := range d.open {
		errs = append(errs, h.close())
	}
	clear(d.open)
	return errors.Join(errs...)
}

// Write puts a note down.
func (d *Dir) Write(n container.Note) {
	d.Drop(n.Name)
	h, err := d.write(n)
	if err != nil {
		d.fail(n.Name, err)
		return
	}
	d.keep(n.Name, h)
}

func (d *Dir) keep(name string, h *headline) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[name] = h
}

func (d *Dir) write(n container.Note) (*headline, error) {
	text, err := encode(n)
	if err != nil {
		return nil, err
	}
	// It has its name when it is whole.
	path := d.file(n.Name)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(text)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	var h *headline
	if err == nil {
		h, err = newHeadline(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(path+".new"))
	}
	h.since, h.holds = n.Since, n.Holds
	return h, nil
}

// Mark changes what a container is doing.
func (d *Dir) Mark(name string, is container.Rest, since time.Time, h container.Holds) {
	found, err := d.mark(name, is, since, h)
	if !found { // of a former process
		if err = d.reopen(name); err == nil {
			_, err = d.mark(name, is, since, h)
		}
	}
	if err != nil {
		d.fail(name, err)
	}
}

// mark holds the lock, lest the line be closed meanwhile.
func (d *Dir) mark(name string, is container.Rest, since time.Time, h container.Holds) (found bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := d.open[name]
	if line == nil {
		return false, errGone
	}
	return true, line.write(is, since, h)
}

func (d *Dir) reopen(name string) error {
	f, err := os.OpenFile(d.file(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	h, err := newHeadline(f)
	if err = errors.Join(err, f.Close()); err == nil {
		d.keep(name, h)
	}
	return err
}

// fail drops a note that could not be written: without one its container is
// removed, with a wrong one it might be used.
func (d *Dir) fail(name string, err error) {
	dropped := d.drop(name)
	d.mu.Lock()
	told := d.failed
	d.failed = true
	d.mu.Unlock()
	if told && dropped == nil {
		return
	}
	d.log.Error("note of a container cannot be written: it will not be taken over by the next process",
		"container", name, "error", errors.Join(err, dropped))
}

// Drop forgets a container.
func (d *Dir) Drop(name string) {
	if err := d.drop(name); err != nil {
		d.log.Error("remove the note of a container", "container", name, "error", err)
	}
}

func (d *Dir) drop(name string) error {
	d.mu.Lock()
	if h := d.open[name]; h != nil {
		_ = h.close()
		delete(d.open, name)
	}
	d.mu.Unlock()
	if err := os.Remove(d.file(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// file is where a container's note lies. Names of containers have nothing but
// letters, digits and a few signs.
func (d *Dir) file(name string) string {
	return filepath.Join(d.path, strings.ReplaceAll(name, "/", "_")+".note")
}

// Read gives the notes that are there, and removes what is none.
func (d *Dir) Read() []container.Note {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		d.log.Warn("read notes of containers", "error", err)
		return nil
	}
	var all []container.Note
	for _, e := range entries {
		n, err := d.read(e.Name())
		if err == nil {
			all = append(all, n)
			continue
		}
		d.log.Warn("note of a container is of no use", "file", e.Name(), "error", err)
		_ = os.Remove(filepath.Join(d.path, e.Name()))
	}
	return all
}

func (d *Dir) read(file string) (container.Note, error) {
	f, err := os.Open(filepath.Join(d.path, file))
	if err != nil {
		return container.Note{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNote))
	if err != nil {
		return container.Note{}, err
	}
	n, err := decode(text)
	if err == nil && filepath.Base(d.file(n.Name)) != file {
		err = errors.New("it is of another container")
	}
	return n, err
}

type body struct {
	Version int `json:"version"`
	container.Note
}

func encode(n container.Note) ([]byte, error) {
	text, err := json.Marshal(body{version, n})
	if err != nil {
		return nil, err
	}
	return append(append(head(nil, n.Rest, n.Since, n.Holds), text...), '\n'), nil
}

func decode(text []byte) (container.Note, error) {
	if len(text) < headSize || text[headSize-1] != '\n' || text[len(text)-1] != '\n' {
		return container.Note{}, errors.New("it is cut off")
	}
	var is byte
	var since int64
	var h container.Holds
	_, err := fmt.Sscanf(string(text[:headSize]), headForm, &is, &since, &h.Allocated, &h.Resident, &h.Context)
	if err != nil {
		return container.Note{}, fmt.Errorf("its first line: %w", err)
	}
	b := body{}
	d := json.NewDecoder(bytes.NewReader(text[headSize:]))
	d.DisallowUnknownFields()
	if err := d.Decode(&b); err != nil {
		return container.Note{}, fmt.Errorf("its second line: %w", err)
	}
	switch {
	case b.Version != version:
		return container.Note{}, fmt.Errorf("version %d, this program writes %d", b.Version, version)
	case b.Name == "" || b.ID == "" || b.MemoryMB <= 0 || b.Concurrency < 1:
		return container.Note{}, errors.New("something is missing in it")
	case since < 0 || h.Allocated < 0 || h.Resident < 0 || h.Context < 0:
		return container.Note{}, errors.New("a number in it is negative")
	}
	n := b.Note
	n.Rest, n.Since, n.Holds = container.Rest(is), time.Unix(0, since), h
	return n, nil
}
