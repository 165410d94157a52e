package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// propertiesName is the file that deployments of one machine leave in their
// source tree.
const propertiesName = "whisk.properties"

// FindProperties looks for whisk.properties in dir and its parents, as the
// original does, and returns its path and text; both are empty when there is
// none. dir is a path of root, such as "home/me/openwhisk" in os.DirFS("/").
func FindProperties(root fs.FS, dir string) (at, text string, err error) {
	for {
		at = path.Join(dir, propertiesName)
		data, err := fs.ReadFile(root, at)
		if err == nil {
			return at, string(data), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("read properties: %w", err)
		}
		if dir == "." {
			return "", "", nil
		}
		dir = path.Dir(dir)
	}
}

// propertiesFile reads key=value lines; "#" begins a comment line.
func propertiesFile(doc string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		name, v, ok := strings.Cut(line, "=")
		if ok && !strings.HasPrefix(line, "#") {
			m[strings.TrimSpace(name)] = strings.TrimSpace(v)
		}
	}
	return m
}
