package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseEnvFile(t *testing.T) {
	got, err := parseEnvFile("# comment\n; another\n\nA=1\n B = two words \nC='{\"x\":\"\\n\"}'\nD=\"a \\\"b\\\"\"\nE=one\\\ntwo\nF=\nG=a#b\r\n")
	want := []string{"A=1", "B=two words", `C={"x":"\n"}`, `D=a "b"`, "E=onetwo", "F=", "G=a#b"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	for text, want := range map[string]string{"A=1\nnonsense\n": "line 2", "A='x\n": "not closed", "=x": "line 1", "export A=1": "line 1"} {
		if _, err := parseEnvFile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// TestPackagedSettingsAreReadable: the file that the packages install.
func TestPackagedSettingsAreReadable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "package", "files", "invoker.env"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parseEnvFile(string(text)); err != nil || len(got) != 0 {
		t.Errorf("as installed it sets %q, %v", got, err)
	}
	// With every setting on, each line is one.
	all := strings.ReplaceAll(string(text), "\n#", "\n")
	var lines []string
	for line := range strings.Lines(all) {
		if name, _, ok := strings.Cut(line, "="); ok && !strings.ContainsAny(name, " ,") {
			lines = append(lines, line)
		}
	}
	if got, err := parseEnvFile(strings.Join(lines, "")); err != nil || len(got) < 15 {
		t.Errorf("%d settings, %v", len(got), err)
	}
}

func FuzzParseEnvFile(f *testing.F) {
	f.Add("A=1\nB='x'\n")
	f.Fuzz(func(t *testing.T, text string) {
		environ, err := parseEnvFile(text)
		for _, v := range environ {
			if name, _, ok := strings.Cut(v, "="); !ok || name == "" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		}
	})
}
