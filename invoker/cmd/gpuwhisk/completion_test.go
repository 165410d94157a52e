package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func model(t *testing.T) *kong.Kong {
	t.Helper()
	k, err := parser(&cli{})
	check.NoError(t, err)
	return k
}

func TestEveryCommandHasAPage(t *testing.T) {
	k := model(t)
	dir := t.TempDir()
	check.NoError(t, (manCmd{Dir: dir}).Run(&kong.Context{Kong: k}))
	for _, name := range []string{"gpuwhisk", "gpuwhisk-invoker", "gpuwhisk-doctor", "gpuwhisk-sim-run"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range []string{".TH ", ".SH NAME\n", ".SH SYNOPSIS\n.B gpuwhisk "} {
			check.Contains(t, string(text), want, "%s.1", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "gpuwhisk-native-proxy.1")); err == nil {
		t.Error("a hidden command has a page")
	}
}

// TestBashCompletes runs the script in bash.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	var script strings.Builder
	check.NoError(t, complete(&script, "bash", model(t).Model.Node))
	for _, c := range []struct{ words, want string }{
		{"gpuwhisk inv", "invoker"},
		{"gpuwhisk invoker --uniq", "--uniqueName"},
		{"gpuwhisk invoker --id 0 --uniq", "--uniqueName"},
		{"gpuwhisk sim comp", "compare"},
		{"gpuwhisk native", ""},
	} {
		fields := strings.Fields(c.words)
		ask := script.String() + "\nCOMP_WORDS=(" + c.words + ")\nCOMP_CWORD=" + string(rune('0'+len(fields)-1)) + "\n_gpuwhisk\necho \"${COMPREPLY[*]}\"\n"
		out, err := exec.Command(bash, "-c", ask).CombinedOutput()
		check.NoError(t, err, "%q: %s", c.words, out)
		check.Equal(t, strings.TrimSpace(string(out)), c.want, "%q", c.words)
	}
}

// TestZshCompletes runs the completion in zsh without a terminal: a replacement of
// compadd prints the completions of the script.
func TestZshCompletes(t *testing.T) {
	zsh, err := exec.LookPath("zsh")
	if err != nil {
		t.Skip("no zsh")
	}
	var script strings.Builder
	check.NoError(t, complete(&script, "zsh", model(t).Model.Node))
	for words, want := range map[string]string{
		"gpuwhisk inv": "invoker", "gpuwhisk invoker --uniq": "--uniqueName", "gpuwhisk invoker --id 0 --uniq": "--uniqueName",
		"gpuwhisk sim comp": "compare", "gpuwhisk sim run --pol": "--policy",
	} {
		ask := fmt.Sprintf("compdef() {}; _default() {}; compadd() { print -r -- $@ }\n%s\nwords=(%s); CURRENT=%d; _gpuwhisk\n",
			script.String(), words, len(strings.Fields(words)))
		out, err := exec.Command(zsh, "-f", "-c", ask).CombinedOutput()
		check.NoError(t, err, "%q: %s", words, out)
		check.Includes(t, strings.Fields(string(out)), want, "%q", words)
	}
}
