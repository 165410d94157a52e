// Package runtimes contains the action proxies: the small HTTP servers inside a
// container that load a user's action on POST /init and run it on POST /run. There is a
// proxy for Python, one for Node.js and, in the package native, one for executables.
//
// The package writes the sources of the proxies to a directory and returns the commands
// that start them. build.sh builds the images from the same sources. The package starts
// no goroutine, and no process except for an interpreter that prints its own path once.
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

// Family is a group of action kinds with the same proxy.
type Family string

// The families with a proxy.
const (
	Python Family = "python"
	NodeJS Family = "nodejs"
	Native Family = "native"
)

// FamilyOf returns the proxy family of a resolved action kind such as "python:3.11".
// Blackbox actions run on the native proxy, as actions with code do on OpenWhisk's
// docker skeleton.
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

// source returns the embedded file of a family, "" for the compiled proxy.
func (f Family) source() string {
	switch f {
	case Python:
		return "python3/proxy.py"
	case NodeJS:
		return "nodejs/proxy.js"
	}
	return ""
}

// Write writes the sources of the proxies to dir, which it creates if missing. The
// native proxy is not included, because it is a compiled program.
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
