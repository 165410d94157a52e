package gpucheck

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// warning stands at the head of everything that no card stood behind.
const warning = "FAKE DRIVER: no GPU stood behind these results. They say whether the parts work together, and nothing about speed."

// Name is the name of the report's files, without their ending. A report on
// the fake driver has "fake" in it, one on a card never.
func (r *Report) Name() string {
	what := slug(r.Card.Name)
	if r.Fake {
		what = "fake"
	}
	return fmt.Sprintf("gpu-check-%s-%s", what, r.Started.UTC().Format("2006-01-02-1504"))
}

// slug keeps of a model's name what a file's name can hold. The word fake
// belongs to the fake driver.
func slug(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9')
	})
	out := strings.ReplaceAll(strings.Join(parts, "-"), "fake", "f-ke")
	if out == "" {
		return "gpu"
	}
	return out
}

// Write puts the report into a directory, as Markdown and as JSON, and tells
// the files' names. What lies there already is kept.
func (r *Report) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of results: %w", err)
	}
	base := filepath.Join(dir, r.Name())
	for n := 2; exists(base+".json") || exists(base+".md"); n++ {
		base = fmt.Sprintf("%s-%d", filepath.Join(dir, r.Name()), n)
	}
	var text strings.Builder
	if err := r.PrintJSON(&text); err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	out := []string{base + ".md", base + ".json"}
	for i, content := range []string{r.Markdown(), text.String()} {
		if err := os.WriteFile(out[i], []byte(content), 0o644); err != nil {
			return nil, fmt.Errorf("write report: %w", err)
		}
	}
	return out, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// PrintJSON writes the report as one JSON object.
func (r *Report) PrintJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Markdown is the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# GPU check: %s\n\n", r.title())
	if r.Fake {
		fmt.Fprintf(&b, "**%s**\n\n", warning)
	}
	fmt.Fprintf(&b, "Verdict: **%s**\n\n", r.Verdict)
	r.where(&b)
	b.WriteString("\n| step | verdict | seconds | |\n|---|---|---|---|\n")
	for _, s := range r.Steps {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %.1f | %s |\n", s.Title, anchor(s.Title), s.Verdict, s.Seconds, cell(s.Reason))
	}
	for _, s := range r.Steps {
		s.markdown(&b, r.Fake)
	}
	return b.String()
}

func (r *Report) title() string {
	if r.Fake {
		return "fake driver"
	}
	return r.Card.Name
}

func (r *Report) where(b *strings.Builder) {
	c, m := r.Card, r.Machine
	line := func(what, format string, args ...any) {
		fmt.Fprintf(b, "| %s | %s |\n", what, cell(fmt.Sprintf(format, args...)))
	}
	b.WriteString("| | |\n|---|---|\n")
	line("date", "%s, %.0f s", r.Started.UTC().Format("2006-01-02 15:04 UTC"), r.Seconds)
	line("gpuwhisk", "%s", r.Version)
	line("device", "%s, %s, compute capability %s, %d multiprocessors", c.Name, size(c.Memory), c.Capability, c.Processors)
	line("free at the start", "%s", size(c.Free))
	line("driver", "%s: %s, CUDA %s", r.Driver, orUnknown(c.Driver), c.CUDA)
	line("settings", "MIG %s, MPS %s, compute mode %s", c.MIG, onOff(c.MPS), c.Mode)
	line("managed memory", "%s, concurrent access %s", onOff(c.Managed), onOff(c.Concurrent))
	line("NVML", "%s", c.NVML)
	line("machine", "%s, kernel %s, %s, %d cores, %s", m.OS, m.Kernel, m.Processor, m.Cores, size(m.Memory))
	line("programs", "%s", r.Programs)
	g := r.Goals
	line("goals", "swap at least %s of pinned copies; shim at most %s; prefetch at most %s; at least %s of what is evicted free",
		percent(g.Swap), percent(g.Overhead), percent(g.Prefetch), percent(g.Left))
}

func (s *Result) markdown(b *strings.Builder, fake bool) {
	fmt.Fprintf(b, "\n## %s\n\n", s.Title)
	label := ""
	if fake {
		label = " (fake driver)"
	}
	fmt.Fprintf(b, "%s%s%s\n", s.Verdict, label, because(s.Reason))
	if len(s.Findings) > 0 {
		b.WriteString("\n| what | value | goal | |\n|---|---|---|---|\n")
	}
	for _, f := range s.Findings {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", cell(f.What), f.value(), cell(f.Goal), f.Verdict)
	}
	for _, t := range s.Tables {
		if len(t.Rows) == 0 {
			fmt.Fprintf(b, "\n%s%s: none.\n", t.Title, label)
			continue
		}
		fmt.Fprintf(b, "\n%s%s\n\n| %s |\n|%s\n", t.Title, label, strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
		for _, row := range t.Rows {
			b.WriteByte('|')
			for _, c := range row {
				fmt.Fprintf(b, " %s |", cell(c))
			}
			b.WriteByte('\n')
		}
	}
	for i, n := range s.Notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(b, "* %s\n", cell(n))
	}
}

func (f Finding) value() string {
	switch f.Unit {
	case "share":
		return percent(f.Value)
	case "":
		return fmt.Sprintf("%g", f.Value)
	}
	return fmt.Sprintf("%.4g %s", f.Value, f.Unit)
}

// cell keeps a text within its cell and on its line.
func cell(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s)
	const most = 600
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", "\\|")
}

func anchor(title string) string {
	return strings.ReplaceAll(strings.ToLower(title), " ", "-")
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d B", n)
}

func percent(v float64) string {
	if v >= 0.1 || v <= -0.1 {
		return fmt.Sprintf("%.0f%%", 100*v)
	}
	return fmt.Sprintf("%.2f%%", 100*v)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
