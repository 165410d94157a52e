package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// DeadLetterDir stores each document as a file in a directory. The first document
// creates the directory.
type DeadLetterDir struct{ Dir string }

// letter is the content of a dead letter's file.
type letter struct {
	ID     string    `json:"id"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	// Document is the record as sent to the store. If it is not valid JSON, Text holds
	// it instead.
	Document json.RawMessage `json:"document,omitempty"`
	Text     []byte          `json:"text,omitempty"`
}

// Add writes a document and the reason to a file. It replaces an existing file of the
// document.
func (d DeadLetterDir) Add(doc Document, reason error) error {
	l := letter{ID: doc.ID, Reason: reason.Error(), At: time.Now().UTC(), Document: doc.Body}
	if !json.Valid(doc.Body) || !utf8.Valid(doc.Body) {
		l.Document, l.Text = nil, doc.Body
	}
	data, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	if err := os.MkdirAll(d.Dir, 0o700); err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	if err := writeWhole(d.Dir, deadName(doc.ID), data); err != nil {
		return fmt.Errorf("write dead letter: %w", err)
	}
	return nil
}

// Count returns the number of dead letters.
func (d DeadLetterDir) Count() int {
	names, _ := filepath.Glob(filepath.Join(d.Dir, "*.json"))
	return len(names)
}

// deadName returns the activation id, the part after the namespace, as a safe file name.
func deadName(id string) string {
	tail := id[strings.LastIndexByte(id, '/')+1:]
	safe := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, tail)
	return safe[:min(len(safe), 64)] + ".json"
}

// writeWhole writes a file atomically.
func writeWhole(dir, name string, data []byte) error {
	f, err := os.CreateTemp(dir, name+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
