package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd prints a shell script that completes this command line.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help is the longer text of gpuwhisk completion --help.
func (completionCmd) Help() string {
	return `  source <(gpuwhisk completion bash)
  gpuwhisk completion fish > ~/.config/fish/completions/gpuwhisk.fish`
}

// Run prints the script.
func (c completionCmd) Run(k *kong.Context) error {
	return complete(os.Stdout, c.Shell, k.Model.Node)
}

// manCmd writes the pages of the manual, for packages.
type manCmd struct {
	Dir string `arg:"" help:"Directory for the pages."`
}

// Run writes gpuwhisk.1 and a page for each command.
func (c manCmd) Run(k *kong.Context) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return fmt.Errorf("create the directory of the pages: %w", err)
	}
	for _, n := range tree(k.Model.Node) {
		path := filepath.Join(c.Dir, strings.ReplaceAll(n.FullPath(), " ", "-")+".1")
		if err := os.WriteFile(path, []byte(page(n)), 0o644); err != nil {
			return fmt.Errorf("write a page of the manual: %w", err)
		}
	}
	return nil
}

// commands returns the visible commands directly below a node, in order.
func commands(n *kong.Node) []*kong.Node {
	return slices.DeleteFunc(slices.Clone(n.Children), func(c *kong.Node) bool { return c.Hidden || c.Type != kong.CommandNode })
}

// tree returns a node and all commands below it.
func tree(n *kong.Node) []*kong.Node {
	all := []*kong.Node{n}
	for _, c := range commands(n) {
		all = append(all, tree(c)...)
	}
	return all
}

// flags returns the visible flags of a command, without those of its parents.
func flags(n *kong.Node) []*kong.Flag {
	return slices.DeleteFunc(slices.Clone(n.Flags), func(f *kong.Flag) bool { return f.Hidden })
}

// page returns the manual page of a command, in roff's man macros.
func page(n *kong.Node) string {
	name := strings.ReplaceAll(n.FullPath(), " ", "-")
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"GPU Whisk %s\" \"GPU Whisk\"\n", strings.ToUpper(roff(name)), roff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(strings.TrimSuffix(n.Help, ".")))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B gpuwhisk %s\n", roff(strings.TrimSpace(n.Summary())))
	if n.Detail != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n.nf\n%s\n.fi\n", roff(n.Detail))
	}
	if len(flags(n)) > 0 {
		b.WriteString(".SH OPTIONS\n")
	}
	for _, f := range flags(n) {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(f.String()), roff(f.Help))
		if f.HasDefault && f.Default != "" {
			fmt.Fprintf(&b, "Default: %s.\n", roff(f.Default))
		}
	}
	if below := tree(n)[1:]; len(below) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, c := range below {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(c.FullPath()), roff(c.Help))
		}
	}
	if n.Type == kong.ApplicationNode {
		b.WriteString(".SH FILES\n.TP\n.B /etc/gpuwhisk/invoker.env\nSettings of the invokers of gpuwhisk@.service.\n")
	} else {
		b.WriteString(".SH SEE ALSO\n.BR gpuwhisk (1)\n")
	}
	return b.String()
}

// roff escapes the characters that are special in roff.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	var lines []string
	for line := range strings.SplitSeq(s, "\n") {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// complete writes the completion script of a shell: the commands, and the flags of each
// command.
func complete(w io.Writer, shell string, root *kong.Node) error {
	var b strings.Builder
	switch shell {
	case "fish":
		completeFish(&b, root)
	case "zsh":
		completeZsh(&b, root)
	default:
		completeBash(&b, root)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func completeBash(b *strings.Builder, root *kong.Node) {
	find(b, root, "${COMP_WORDS[@]:1:COMP_CWORD-1}")
	b.WriteString("\tCOMPREPLY=($(compgen -W \"${found[*]}\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _gpuwhisk gpuwhisk\n")
}

// completeZsh writes a script that may be sourced, or installed in a directory of fpath
// as _gpuwhisk.
func completeZsh(b *strings.Builder, root *kong.Node) {
	b.WriteString("#compdef gpuwhisk\n")
	find(b, root, "${(@)words[2,CURRENT-1]}")
	b.WriteString("\tcompadd -- $found || _default\n}\n")
	b.WriteString("if [[ $funcstack[1] = _gpuwhisk ]]; then _gpuwhisk; else compdef _gpuwhisk gpuwhisk; fi\n")
}

// find writes the first part of a function for bash or zsh. The function derives the
// command from the words before the cursor, skipping flags, and collects the possible
// next words in found. It avoids the variable names path and words, which are special in
// zsh.
func find(b *strings.Builder, root *kong.Node, before string) {
	b.WriteString("_gpuwhisk() {\n\tlocal word at=gpuwhisk\n\tlocal -a found\n")
	fmt.Fprintf(b, "\tfor word in \"%s\"; do\n\t\tcase $word in (-*) ;; (*) at=\"$at $word\" ;; esac\n\tdone\n\tcase $at in\n", before)
	for _, n := range tree(root) {
		var words []string
		for _, c := range commands(n) {
			words = append(words, c.Name)
		}
		for _, f := range flags(n) {
			words = append(words, "--"+f.Name)
		}
		pattern := "'" + n.FullPath() + "'"
		if len(n.Children) == 0 {
			pattern += "*" // skip the value of a flag
		}
		fmt.Fprintf(b, "\t(%s) found=(%s) ;;\n", pattern, strings.Join(words, " "))
	}
	b.WriteString("\tesac\n")
}

func completeFish(b *strings.Builder, root *kong.Node) {
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) + "'" }
	for _, n := range tree(root)[1:] {
		above := "__fish_use_subcommand"
		if n.Parent != root {
			above = "__fish_seen_subcommand_from " + n.Parent.Name
		}
		fmt.Fprintf(b, "complete -c gpuwhisk -f -n %s -a %s -d %s\n", quote(above), n.Name, quote(n.Help))
		for _, f := range flags(n) {
			fmt.Fprintf(b, "complete -c gpuwhisk -n %s -l %s -d %s\n", quote("__fish_seen_subcommand_from "+n.Name), f.Name, quote(f.Help))
		}
	}
}
