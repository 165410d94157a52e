package config

import "path/filepath"

// None does without what a path or a directory would name.
const None = "none"

// State is what outlives the process, on disk.
type State struct {
	// Dir is where the others lie that name no directory of their own.
	Dir string `key:"whisk.gpu.state" default:"/var/lib/gpuwhisk" doc:"directory for what outlives the process; none switches off all that names no directory of its own"`
	// Journal is the journal of activations, Spool has records that wait for
	// their store, DeadLetters those that it does not take. Each is a
	// directory, None, or empty: one in Dir.
	Journal     string `key:"whisk.gpu.journal" doc:"directory of the journal of what began and ended, or none"`
	JournalSync string `key:"whisk.gpu.journal-fsync" default:"batch" enum:"batch,each,none" doc:"when the journal survives a power loss: batch within about 150 ms, each before an action runs, none when the system sees fit"`
	JournalSize Size   `key:"whisk.gpu.journal-size" default:"1 GiB" min:"16 MiB" doc:"disk for the journal; in scheduler mode nothing more is fetched when half of it holds messages"`
	Spool       string `key:"whisk.gpu.records.spool" doc:"directory of records that wait for their store, or none"`
	SpoolSize   Size   `key:"whisk.gpu.records.spool-size" default:"12 GiB" min:"16 MiB" doc:"disk for them: a day of a hundred a second. When it is full nothing more is pulled"`
	DeadLetters string `key:"whisk.gpu.records.dead-letters" doc:"directory of records that the store refuses, a file each with the reason; none drops them with a log line"`
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
