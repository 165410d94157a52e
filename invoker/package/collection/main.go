// Command collection packs the Ansible collection as ansible-galaxy does, so that
// it can install it: the files, and two lists of them with their sums. The same
// files give the same bytes.
//
//	collection --from ansible --version v1.2.3 --time 1700000000 FILE.tar.gz
package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// info is what galaxy.yml says, in the order of ansible-galaxy's manifest.
type info struct {
	Namespace     string            `json:"namespace"`
	Name          string            `json:"name"`
	Version       string            `json:"version"`
	Authors       []string          `json:"authors"`
	Readme        string            `json:"readme"`
	Tags          []string          `json:"tags"`
	Description   string            `json:"description"`
	License       []string          `json:"license"`
	LicenseFile   *string           `json:"license_file"`
	Dependencies  map[string]string `json:"dependencies"`
	Repository    string            `json:"repository"`
	Documentation string            `json:"documentation"`
	Homepage      string            `json:"homepage"`
	Issues        string            `json:"issues"`
}

// file is one line of FILES.json.
type file struct {
	Name   string  `json:"name"`
	Type   string  `json:"ftype"`
	Kind   *string `json:"chksum_type"`
	Sum    *string `json:"chksum_sha256"`
	Format int     `json:"format"`
}

func main() {
	from := flag.String("from", "ansible", "the collection's folder")
	version := flag.String("version", "", "version, as git describes it; where that is none, galaxy.yml's stays")
	at := flag.Int64("time", 0, "time of all files, in seconds since 1970")
	flag.Parse()
	data, err := pack(os.DirFS(*from), *version, time.Unix(*at, 0).UTC())
	if err == nil {
		err = os.WriteFile(flag.Arg(0), data, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "collection:", err)
		os.Exit(1)
	}
}

// pack makes the archive.
func pack(source fs.FS, version string, at time.Time) ([]byte, error) {
	text, err := fs.ReadFile(source, "galaxy.yml")
	if err != nil {
		return nil, err
	}
	about, ignored, err := parse(text)
	if err != nil {
		return nil, err
	}
	if v, ok := semantic(version); ok {
		about.Version = v
	}
	var out bytes.Buffer
	gz, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	w := tar.NewWriter(gz)
	put := func(name string, kind byte, mode int64, data []byte) error {
		h := &tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: int64(len(data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(data)
		return err
	}
	files, contents, err := list(source, ignored)
	if err != nil {
		return nil, err
	}
	filesText := indented(map[string]any{"files": files, "format": 1})
	kind, s := "sha256", sum(filesText)
	manifest := indented(map[string]any{
		"collection_info": about, "format": 1,
		"file_manifest_file": file{Name: "FILES.json", Type: "file", Kind: &kind, Sum: &s, Format: 1},
	})
	if err := put("MANIFEST.json", tar.TypeReg, 0o644, manifest); err != nil {
		return nil, err
	}
	if err := put("FILES.json", tar.TypeReg, 0o644, filesText); err != nil {
		return nil, err
	}
	for _, f := range files[1:] {
		kind, mode := byte(tar.TypeReg), int64(0o644)
		if f.Type == "dir" {
			kind, mode = tar.TypeDir, 0o755
		}
		if err := put(f.Name, kind, mode, contents[f.Name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := gz.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// list gives all that goes into the archive, in the order of the names.
func list(source fs.FS, ignored []string) (files []file, contents map[string][]byte, err error) {
	contents = map[string][]byte{}
	err = fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(ignored, name):
			return fs.SkipDir
		case name == "galaxy.yml" || name != "." && strings.HasPrefix(path.Base(name), "."):
			return nil
		case d.IsDir():
			files = append(files, file{Name: name, Type: "dir", Format: 1})
			return nil
		}
		data, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		kind, s := "sha256", sum(data)
		contents[name] = data
		files = append(files, file{Name: name, Type: "file", Kind: &kind, Sum: &s, Format: 1})
		return nil
	})
	return files, contents, err
}

// parse reads galaxy.yml: words, lists of words, and the dependencies.
func parse(text []byte) (about info, ignored []string, err error) {
	words := map[string]*string{
		"namespace": &about.Namespace, "name": &about.Name, "version": &about.Version, "readme": &about.Readme, "description": &about.Description,
		"repository": &about.Repository, "documentation": &about.Documentation, "homepage": &about.Homepage, "issues": &about.Issues,
	}
	lists := map[string]*[]string{"authors": &about.Authors, "tags": &about.Tags, "license": &about.License, "build_ignore": &ignored}
	about.Dependencies = map[string]string{}
	under := ""
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if item, ok := strings.CutPrefix(line, "  - "); ok && lists[under] != nil {
			*lists[under] = append(*lists[under], item)
			continue
		}
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch {
		case line == "---" || line == "" || strings.HasPrefix(line, "#"):
		case ok && strings.HasPrefix(line, "  ") && under == "dependencies":
			about.Dependencies[key] = value
		case ok && value == "" && (lists[key] != nil || key == "dependencies"):
			under = key
		case ok && words[key] != nil && !strings.HasPrefix(line, " "):
			*words[key] = value
		default:
			return about, nil, fmt.Errorf("galaxy.yml: %q is not understood", line)
		}
	}
	return about, ignored, nil
}

var version = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?)$`)

// semantic is the version that git describes, where it is one of Galaxy's.
func semantic(described string) (string, bool) {
	m := version.FindStringSubmatch(described)
	if m == nil {
		return "", false
	}
	return m[1], true
}

func indented(v any) []byte {
	text, _ := json.MarshalIndent(v, "", " ")
	return append(text, '\n')
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
