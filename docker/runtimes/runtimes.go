// Package runtimes carries the action proxies: the small HTTP servers inside
// a container that load a user's action on POST /init and run it on POST /run.
// There is one for Python, one for Node.js and, in the package native, one for
// executables.
//
// The package writes the proxies' sources to a directory and gives the command
// by which each is started; the images are built from the same sources by
// build.sh. It starts no goroutine and, but for an interpreter that prints its
// own path once, no process.
package runtimes

import (
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

//go:embed python3/proxy.py nodejs/proxy.js
var sources embed.FS

// Family is the group of action kinds that one proxy serves.
type Family string

// The families that have a proxy.
const (
	Python Family = "python"
	NodeJS Family = "nodejs"
	Native Family = "native"
)

// FamilyOf gives the proxy family of a resolved action kind such as
// "python:3.11". Blackbox actions run on the native proxy, as those with code
// do on OpenWhisk's docker skeleton.
func FamilyOf(kind string) (Family, bool) {
	name, _, _ := strings.Cut(kind, ":")
	switch name {
	case "python":
		return Python, true
	case "nodejs":
		return NodeJS, true
	case "native", "blackbox":
		return Native, true
	}
	return "", false
}

// source gives the embedded file of a family, "" for the compiled one.
func (f Family) source() string {
	switch f {
	case Python:
		return "python3/proxy.py"
	case NodeJS:
		return "nodejs/proxy.js"
	}
	return ""
}

// Write puts the proxies' sources under dir, which it makes when missing. The
// native proxy is a program, not a source, and is not among them.
func Write(dir string) error {
	for _, family := range []Family{Python, NodeJS} {
		name := family.source()
		text, err := sources.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read embedded proxy %s: %w", name, err)
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return fmt.Errorf("make proxy directory: %w", err)
		}
		if err := os.WriteFile(target, text, 0o644); err != nil {
			return fmt.Errorf("write proxy %s: %w", path.Base(name), err)
		}
	}
	return nil
}
