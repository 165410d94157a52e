package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// The archive of this checkout holds what galaxy.yml says and each file with its
// sum, no tests, and is the same twice.
func TestPack(t *testing.T) {
	source := os.DirFS("../../../ansible")
	at := time.Unix(1700000000, 0)
	data, err := pack(source, "v1.2.3-4-gabcdef", at)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := pack(source, "v1.2.3-4-gabcdef", at); err != nil || !bytes.Equal(again, data) {
		t.Errorf("the second is another: %v", err)
	}
	gz, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	var order []string
	for r := tar.NewReader(gz); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if found[h.Name], err = io.ReadAll(r); err != nil || !h.ModTime.Equal(at) {
			t.Errorf("%s: %v, of %v", h.Name, err, h.ModTime)
		}
		order = append(order, h.Name)
		if strings.HasPrefix(h.Name, "tests") || h.Name == "galaxy.yml" {
			t.Errorf("it has %s", h.Name)
		}
	}
	var manifest struct {
		Info info `json:"collection_info"`
		File file `json:"file_manifest_file"`
	}
	if err := json.Unmarshal(found["MANIFEST.json"], &manifest); err != nil || order[0] != "MANIFEST.json" || *manifest.File.Sum != sum(found["FILES.json"]) {
		t.Errorf("manifest %v: %s", err, found["MANIFEST.json"])
	}
	i := manifest.Info
	if i.Namespace != "gpuwhisk" || i.Name != "openwhisk" || i.Version != "1.2.3-4-gabcdef" || i.Dependencies["community.docker"] == "" || len(i.Tags) == 0 || i.License[0] != "Apache-2.0" {
		t.Errorf("information %+v", i)
	}
	var list struct{ Files []file }
	if err := json.Unmarshal(found["FILES.json"], &list); err != nil || len(list.Files) != len(order)-1 {
		t.Errorf("%d files are listed, %d are there: %v", len(list.Files), len(order)-2, err)
	}
	for _, f := range list.Files {
		if f.Type == "file" && *f.Sum != sum(found[f.Name]) {
			t.Errorf("the sum of %s", f.Name)
		}
	}
	if found["playbooks/swap.yml"] == nil {
		t.Errorf("no playbook among %q", order)
	}
}

func TestVersion(t *testing.T) {
	for described, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-rc1": "1.2.3-rc1", "1.2.3-4-gab-dirty": "1.2.3-4-gab-dirty", "25a75af": "", "": ""} {
		if got, ok := semantic(described); got != want || ok != (want != "") {
			t.Errorf("%s: %s, %t", described, got, ok)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"name\n", "other: x\n", "tags:\n  deep: x\n"} {
		if _, _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
