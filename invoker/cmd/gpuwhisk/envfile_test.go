package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestParseEnvFile: a command gets the same variables from a file as systemd would give
// to the service (systemd.exec(5), EnvironmentFile=).
func TestParseEnvFile(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"bare values", "A=1\n B = two words \t\nF=\nG=a#b\r\nH=x=y", []string{"A=1", "B=two words", "F=", "G=a#b", "H=x=y"}},
		{"comments", "# one\n; two\n\nno assignment\n  # A=1\nB=1\n", []string{"B=1"}},
		{"a comment is not continued, as since systemd 254", "# off \\\nA=1\n", []string{"A=1"}},
		{"single quotes keep all", "A='{\"x\":\"\\n\"}'\nB='a\\\nb'\n", []string{`A={"x":"\n"}`, "B=a\\\nb"}},
		{"double quotes take escapes as a shell", `A="a \"b\" \\ \$ ` + "\\`" + ` \n"`, []string{`A=a "b" \ $ ` + "`" + ` \n`}},
		{"quotes go over lines", "A=\"a\nb\\\nc\"\nB='x\n\ny'\n", []string{"A=a\nbc", "B=x\n\ny"}},
		{"quotes beside each other", `A="a" 'b'c` + "\n", []string{"A=abc"}},
		{"quotes inside of a bare value", `A=it's "so"` + "\n", []string{`A=it's "so"`}},
		{"bare escapes", "A=a\\ b\\nc\\\\\\'\nB=end\\  \nC=x\\", []string{`A=a bnc\'`, "B=end ", "C=x"}},
		{"continued lines", "A=one\\\ntwo \\\n  three  \nB=\\\n# no comment\n", []string{"A=onetwo   three", "B=# no comment"}},
	} {
		got, err := parseEnvFile(c.text)
		check.NoError(t, err, "%s: %q", c.name, c.text)
		check.EqualSlices(t, got, c.want, "%s: %q", c.name, c.text)
	}
	for text, want := range map[string]string{
		"A=1\nB='x\n": "line 2, B: a quote is not closed", "A=\"x\n": "not closed", "=x": "line 1",
		"export A=1": "line 1", "A='1\n2'\n3=x": "line 3", "A=\"\\\"": "not closed",
	} {
		_, err := parseEnvFile(text)
		check.ErrorContains(t, err, want, "%q", text)
	}
}

// TestPackagedSettingsAreReadable: the file that the packages install.
func TestPackagedSettingsAreReadable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "package", "files", "invoker.env"))
	check.NoError(t, err)
	got, err := parseEnvFile(string(text))
	check.NoError(t, err)
	check.Equal(t, len(got), 0, "as installed it sets %q", got)
	// With every setting on, each line is one.
	all := strings.ReplaceAll(string(text), "\n#", "\n")
	var lines []string
	for line := range strings.Lines(all) {
		if name, _, ok := strings.Cut(line, "="); ok && !strings.ContainsAny(name, " ,") {
			lines = append(lines, line)
		}
	}
	got, err = parseEnvFile(strings.Join(lines, ""))
	check.NoError(t, err)
	check.AtLeast(t, len(got), 15)
}

func FuzzParseEnvFile(f *testing.F) {
	f.Add("A=1\nB='x'\n")
	f.Fuzz(func(t *testing.T, text string) {
		environ, err := parseEnvFile(text)
		for _, v := range environ {
			check.NoError(t, err, "%q", v)
			check.Greater(t, strings.Index(v, "="), 0, "%q", v)
		}
	})
}
