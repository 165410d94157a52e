package config

import "path/filepath"

// None is the value of a path or directory that switches its feature off.
const None = "none"

// State configures the files on disk that survive the process.
type State struct {
	// Dir is the parent of all the directories below that are not configured.
	Dir string `key:"whisk.gpu.state" default:"/var/lib/gpuwhisk" doc:"directory of the files that survive the process: journal, waiting records, dead letters, fallbacks. none: only those with a directory of their own key are kept"`
	// Journal is the directory of the activation journal, Spool that of records that
	// wait for their store, and DeadLetters that of records that the store refuses. Each
	// is a directory, None, or empty for a directory in Dir.
	Journal     string `key:"whisk.gpu.journal" doc:"directory of the journal of activations, or none; empty: in whisk.gpu.state"`
	JournalSync string `key:"whisk.gpu.journal-fsync" default:"batch" enum:"batch,each,none" doc:"when the journal survives a power loss: batch within about 150 ms, each before an action runs, none when the system sees fit"`
	JournalSize Size   `key:"whisk.gpu.journal-size" default:"1 GiB" min:"16 MiB" doc:"disk for the journal; in scheduler mode nothing more is fetched when half of it holds messages"`
	Spool       string `key:"whisk.gpu.records.spool" doc:"directory of records that wait for their store, or none; empty: in whisk.gpu.state"`
	SpoolSize   Size   `key:"whisk.gpu.records.spool-size" default:"12 GiB" min:"16 MiB" doc:"disk for waiting records, enough for a day at a hundred records a second. When it is full, no more activations are pulled"`
	DeadLetters string `key:"whisk.gpu.records.dead-letters" doc:"directory of records that the store refuses, a file each with the reason; empty: in whisk.gpu.state; none drops them with a log line"`
}

// JournalDir returns the journal directory of an invoker, or "" if it has no journal.
func (s State) JournalDir(invoker string) string { return s.dir(s.Journal, "journal", invoker) }

// WarmDir returns the directory of container state files. It is beside the journal,
// because it relies on the journal's lock.
func (s State) WarmDir(invoker string) string {
	if dir := s.JournalDir(invoker); dir != "" {
		return filepath.Join(dir, "containers")
	}
	return ""
}

// SpoolDir returns the directory of waiting records, or "" for none.
func (s State) SpoolDir(invoker string) string { return s.dir(s.Spool, "records", invoker) }

// DeadLetterDir returns the directory of dead letters, or "" for none.
func (s State) DeadLetterDir(invoker string) string {
	return s.dir(s.DeadLetters, "dead-letters", invoker)
}

// FallbackFile returns the path of the list of actions whose GPU memory cannot be moved,
// or "" without a state directory.
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
