package devices

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Fallback is an action whose libraries do not bear memory that is moved: its
// memory is only counted from then on.
type Fallback struct {
	Action string    `json:"action"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	// Probation means that the action itself may be the cause of its failure. Probation ends
	// with the first run whose memory is only counted.
	Probation bool `json:"probation,omitempty"`
}

// maxFallbacks bounds how many are stored; the oldest is dropped.
const maxFallbacks = 1000

// CountOnlyActions stores the actions in a file, for the next process. It is safe for
// concurrent use.
type CountOnlyActions struct {
	path string // empty: they are forgotten with the process
	log  *slog.Logger

	mu       sync.Mutex
	byAction map[string]Fallback
	ownFault map[string]bool // actions that failed on probation, too: it was their own fault

	disk sync.Mutex // held while the file is written; never with mu
}

// OpenFallbacks reads the file of an earlier process. A file that cannot be read is renamed,
// and its contents are found out again.
func OpenFallbacks(path string, log *slog.Logger) *CountOnlyActions {
	f := &CountOnlyActions{path: path, log: log, byAction: map[string]Fallback{}, ownFault: map[string]bool{}}
	if path == "" {
		return f
	}
	data, err := os.ReadFile(path)
	var list []Fallback
	if err == nil {
		list, err = ReadFallbacks(data)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		log.Warn("the list of actions whose memory is only counted cannot be read: it is made again", "file", path, "error", err)
		_ = os.Rename(path, path+".bad")
	}
	for _, one := range list {
		f.byAction[one.Action] = one
	}
	return f
}

// ReadFallbacks reads the file's content.
func ReadFallbacks(data []byte) ([]Fallback, error) {
	var list []Fallback
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read fallbacks: %w", err)
	}
	list = slices.DeleteFunc(list, func(one Fallback) bool { return one.Action == "" })
	return list[:min(len(list), maxFallbacks)], nil
}

// Reason is why an action fell back, if it did.
func (f *CountOnlyActions) Reason(action string) (why string, fell bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, fell := f.byAction[action]
	return one.Reason, fell
}

// Add adds an action, on probation where the sign was weak. False: it is there
// already, or failed on probation. Save writes the file.
func (f *CountOnlyActions) Add(action, reason string, weak bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, known := f.byAction[action]
	if known && (weak || !one.Probation) || weak && f.ownFault[action] {
		return false
	}
	if !known && len(f.byAction) >= maxFallbacks {
		delete(f.byAction, f.sorted()[0].Action)
	}
	f.byAction[action] = Fallback{Action: action, Reason: reason, Since: time.Now().UTC().Truncate(time.Second), Probation: weak}
	return true
}

// Passed ends an action's probation: counting helped. False: it is not on probation.
func (f *CountOnlyActions) Passed(action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byAction[action]
	if !one.Probation {
		return false
	}
	one.Probation = false
	f.byAction[action] = one
	return true
}

// Failed removes an action that failed on probation, too. False: it is not on
// probation.
func (f *CountOnlyActions) Failed(action string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.byAction[action].Probation {
		return false
	}
	delete(f.byAction, action)
	if len(f.ownFault) >= maxFallbacks {
		clear(f.ownFault)
	}
	f.ownFault[action] = true
	return true
}

// Clear removes an action, or all for an empty name, and returns how many. The
// next containers follow their annotations.
func (f *CountOnlyActions) Clear(action string) int {
	f.mu.Lock()
	n := len(f.byAction)
	if action == "" {
		clear(f.byAction)
		clear(f.ownFault)
	} else {
		delete(f.byAction, action)
		delete(f.ownFault, action)
	}
	n -= len(f.byAction)
	f.mu.Unlock()
	if n > 0 {
		f.Save()
	}
	return n
}

// List is all of them, the oldest first.
func (f *CountOnlyActions) List() []Fallback {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sorted()
}

// sorted needs mu.
func (f *CountOnlyActions) sorted() []Fallback {
	list := slices.AppendSeq([]Fallback{}, maps.Values(f.byAction))
	slices.SortFunc(list, func(a, b Fallback) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Action, b.Action))
	})
	return list
}

// Save writes the file. What cannot be written is found out again after a
// restart; it is logged.
func (f *CountOnlyActions) Save() {
	if f.path == "" {
		return
	}
	f.disk.Lock()
	defer f.disk.Unlock()
	data, err := json.MarshalIndent(f.List(), "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(f.path), 0o700)
	}
	if err == nil {
		err = os.WriteFile(f.path+".new", append(data, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(f.path+".new", f.path)
	}
	if err != nil {
		f.log.Warn("write which actions fell back to the shim as count", "error", err)
	}
}
