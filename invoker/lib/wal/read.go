package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The names of files contain the format's version, so that a program that cannot read
// the format reports that instead of damage.
const (
	format    = "v1"
	nameParts = "%08x-%08x."
)

func fileName(n Segment, salt uint32) string { return fmt.Sprintf(nameParts+format, uint32(n), salt) }

// parseName parses a file's name. ok is false if the file does not belong to a log.
func parseName(name string) (n Segment, salt uint32, ok bool, err error) {
	var number uint32
	var suffix string
	if c, _ := fmt.Sscanf(name, nameParts+"%s", &number, &salt, &suffix); c != 3 || !strings.HasPrefix(suffix, "v") {
		return 0, 0, false, nil
	}
	if suffix != format {
		return 0, 0, false, fmt.Errorf("%s has format %s, this version reads %s: use the version that wrote it, or move the directory away", name, suffix, format)
	}
	return Segment(number), salt, name == fileName(Segment(number), salt), nil
}

// load reads all files in order.
func (l *Log) load(each func(Position, []byte)) error {
	entries, err := os.ReadDir(l.cfg.Dir)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	var numbers []Segment
	for _, e := range entries {
		n, salt, ok, err := parseName(e.Name())
		if err != nil {
			return fmt.Errorf("read log %s: %w", l.cfg.Dir, err)
		}
		if ok {
			numbers = append(numbers, n)
			l.files[n] = &segment{name: e.Name(), salt: salt}
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		if err := l.loadFile(n, i == len(numbers)-1, each); err != nil {
			return err
		}
		l.head = n
	}
	return nil
}

func (l *Log) loadFile(n Segment, last bool, each func(Position, []byte)) error {
	s := l.files[n]
	path := filepath.Join(l.cfg.Dir, s.name)
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	gaps := scan(data, s.salt, func(at int, payload []byte) {
		each(Position{n, uint32(at), uint32(len(payload))}, payload)
	})
	s.size = int64(len(data))
	if k := len(gaps) - 1; k >= 0 && gaps[k].to == len(data) {
		if err := l.cutEnd(path, data, gaps[k].from, last); err != nil {
			return err
		}
		s.size, gaps = int64(gaps[k].from), gaps[:k]
	}
	for _, g := range gaps {
		l.damaged += int64(g.to - g.from)
		l.cfg.Log.Error("a log is damaged, its whole entries are used", "file", path, "from", g.from, "bytes", g.to-g.from)
	}
	l.total += s.size
	return nil
}

// cutEnd truncates the torn end of a file.
func (l *Log) cutEnd(path string, data []byte, from int, last bool) error {
	if err := os.Truncate(path, int64(from)); err != nil {
		return fmt.Errorf("cut torn end of log: %w", err)
	}
	torn := len(bytes.TrimRight(data[from:], "\x00")) // earlier versions allocated files before writing
	switch {
	case torn == 0:
	case last:
		l.cfg.Log.Info("cut the torn end of a log", "file", path, "from", from, "bytes", torn)
	default: // a later file exists, so this is not the result of a crash
		l.damaged += int64(torn)
		l.cfg.Log.Error("cut the damaged end of a log", "file", path, "from", from, "bytes", torn)
	}
	return nil
}

// Read reads an entry. It waits for an entry that is appended but not yet written,
// unless the disk is in trouble.
func (l *Log) Read(p Position) ([]byte, error) {
	payload, err := l.read(p)
	if err == nil {
		return payload, nil
	}
	if trouble := l.Appended().Wait(); trouble != nil {
		return nil, fmt.Errorf("read entry at %d of segment %d: %w", p.Offset, p.Segment, trouble)
	}
	return l.read(p)
}

func (l *Log) read(p Position) ([]byte, error) {
	l.mu.Lock()
	s := l.files[p.Segment]
	l.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("read entry: segment %d does not exist", p.Segment)
	}
	f, err := os.Open(filepath.Join(l.cfg.Dir, s.name))
	if err != nil {
		return nil, fmt.Errorf("read entry: %w", err)
	}
	defer func() { _ = f.Close() }()
	frame := make([]byte, headerBytes+int(p.Size))
	if _, err := f.ReadAt(frame, int64(p.Offset)); err != nil {
		return nil, fmt.Errorf("read entry at %d of %s: %w", p.Offset, s.name, errors.Join(ErrDamaged, err))
	}
	payload, size, ok := decodeFrame(frame, s.salt)
	if !ok || size != len(frame) {
		return nil, fmt.Errorf("read entry at %d of %s: %w", p.Offset, s.name, ErrDamaged)
	}
	return payload, nil
}

// Each calls each for the entries of a file that is no longer appended to, from an
// offset, until each returns false. It returns the offset after the last entry of these
// calls, and whether it reached the end.
func (l *Log) Each(n Segment, from int64, each func(Position, []byte) bool) (next int64, end bool, err error) {
	l.mu.Lock()
	s := l.files[n]
	var size int64
	if s != nil {
		size = s.size
	}
	l.mu.Unlock()
	if s == nil || from > size {
		return from, true, nil
	}
	f, err := os.Open(filepath.Join(l.cfg.Dir, s.name))
	if errors.Is(err, os.ErrNotExist) {
		return from, size == 0, nil // nothing is written yet
	}
	if err != nil {
		return from, false, fmt.Errorf("read log: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return from, false, fmt.Errorf("read log: %w", err)
	}
	next, stopped := from, false
	scan(data, s.salt, func(at int, payload []byte) {
		if stopped {
			return
		}
		p := Position{n, uint32(from) + uint32(at), uint32(len(payload))}
		if stopped = !each(p, payload); !stopped {
			next = int64(p.Offset) + int64(headerBytes+len(payload))
		}
	})
	return next, !stopped && from+int64(len(data)) >= size, nil
}
