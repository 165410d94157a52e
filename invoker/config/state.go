package config

import (
	"path/filepath"
)

// None switches off what is kept in a directory.
const None = "none"

// State is what outlives the process, on disk.
type State struct {
	// Dir is where the others lie that name no directory of their own.
	Dir string
	// Journal is the account of activations, Spool has records that wait for
	// their store, DeadLetters those that it does not take. Each is a
	// directory, None, or empty: one in Dir.
	Journal     string
	JournalSync string // batch, each or none
	JournalSize Size
	Spool       string
	SpoolSize   Size
	DeadLetters string
}

func stateKeys(c *Config) []*Key {
	s := &c.State
	const where = "; empty means in whisk.gpu.state. Each invoker has a directory of its own name there"
	return []*Key{
		{Name: "whisk.gpu.state", Default: "/var/lib/gpuwhisk", value: text(&s.Dir),
			Doc: "directory for what outlives the process; none switches off all that names no directory of its own"},
		{Name: "whisk.gpu.journal", value: text(&s.Journal),
			Doc: "directory of the journal of what began and ended, or none; empty means in whisk.gpu.state, by the invoker's name" + where},
		{Name: "whisk.gpu.journal-fsync", Default: "batch", value: choice(&s.JournalSync, "batch", "each", "none"),
			Doc: "when the journal survives a power loss: batch within about 150 ms, each before an action runs, none when the system sees fit; a crash of the process it always survives"},
		{Name: "whisk.gpu.journal-size", Default: "1 GiB", value: size(&s.JournalSize, int64(16*MiB)),
			Doc: "disk for the journal; when half of it holds messages that wait for a GPU, no more are spilled there"},
		{Name: "whisk.gpu.records.spool", value: text(&s.Spool),
			Doc: "directory of records that wait for their store, or none; empty means in whisk.gpu.state, by the invoker's name" + where},
		{Name: "whisk.gpu.records.spool-size", Default: "12 GiB", value: size(&s.SpoolSize, int64(16*MiB)),
			Doc: "disk for records that wait for their store; a day of a hundred a second takes some 10 GiB; beyond it nothing more is pulled"},
		{Name: "whisk.gpu.records.dead-letters", value: text(&s.DeadLetters),
			Doc: "directory of records that the store refuses, a file each with the reason; none drops them with a log line; empty means in whisk.gpu.state, by the invoker's name" + where},
	}
}

// JournalDir is the journal's directory of one invoker, empty for none. SpoolDir
// and DeadLetterDir are alike.
func (s State) JournalDir(invoker string) string { return s.dir(s.Journal, "journal", invoker) }

// WarmDir is where container state files are: beside the journal, whose lock
// they need.
func (s State) WarmDir(invoker string) string {
	if dir := s.JournalDir(invoker); dir != "" {
		return filepath.Join(dir, "containers")
	}
	return ""
}

// SpoolDir is the directory of waiting records.
func (s State) SpoolDir(invoker string) string { return s.dir(s.Spool, "records", invoker) }

// DeadLetterDir is the directory of dead letters.
func (s State) DeadLetterDir(invoker string) string {
	return s.dir(s.DeadLetters, "dead-letters", invoker)
}

// FallbackFile has the actions whose GPU memory cannot be moved; empty where
// nothing outlives the process.
func (s State) FallbackFile(invoker string) string { return s.dir("", "gpu-fallbacks.json", invoker) }

func (s State) dir(own, name, invoker string) string {
	switch {
	case own == None, own == "" && (s.Dir == None || s.Dir == ""):
		return ""
	case own == "":
		return filepath.Join(s.Dir, invoker, name)
	}
	return filepath.Join(own, invoker)
}
