package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestBillNamesEveryModule: of this very test program, twice the same.
func TestBillNamesEveryModule(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	one, err := json.Marshal(bill(info, sha256.Sum256(nil), "v1.2.3", "2026-01-02T03:04:05Z"))
	if err != nil {
		t.Fatal(err)
	}
	two, _ := json.Marshal(bill(info, sha256.Sum256(nil), "v1.2.3", "2026-01-02T03:04:05Z"))
	if string(one) != string(two) {
		t.Error("the same program gives another document")
	}
	for _, want := range []string{`"SPDX-2.3"`, `"stdlib"`, `"v1.2.3"`, `"2026-01-02T03:04:05Z"`, `"DESCRIBES"`} {
		if !strings.Contains(string(one), want) {
			t.Errorf("no %s in the document", want)
		}
	}
	for _, m := range info.Deps {
		if !strings.Contains(string(one), `"pkg:golang/`+m.Path+"@"+m.Version+`"`) {
			t.Errorf("module %s is missing", m.Path)
		}
	}
}
