package gpucheck

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed report.md.tmpl
var reportText string

var reportTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"cell": cell, "size": size, "percent": percent, "known": orUnknown, "because": because, "join": strings.Join,
	"onOff":  func(on bool) string { return word(on, "on", "off") },
	"anchor": func(title string) string { return strings.ReplaceAll(strings.ToLower(title), " ", "-") },
}).Parse(reportText))

// Markdown is the report for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	if err := reportTemplate.Execute(&b, r); err != nil {
		panic(err) // the template is part of the program
	}
	return b.String()
}

// PrintJSON writes the report as one JSON object.
func (r *Report) PrintJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Name is the name of the report's files, without their ending. A report on the
// fake driver has "fake" in it, one on a card never.
func (r *Report) Name() string {
	card := "fake"
	if !r.Fake {
		parts := strings.FieldsFunc(strings.ToLower(r.Card.Name), func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < '0' || c > '9')
		})
		card = strings.ReplaceAll(strings.Join(parts, "-"), "fake", "f-ke")
	}
	return fmt.Sprintf("gpu-check-%s-%s", cmp.Or(card, "gpu"), r.Started.UTC().Format("2006-01-02-1504"))
}

// Write puts the report into a directory, as Markdown and as JSON, and returns the
// files' names. Files that are there are kept.
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
	names := []string{base + ".md", base + ".json"}
	for i, content := range []string{r.Markdown(), text.String()} {
		if err := os.WriteFile(names[i], []byte(content), 0o644); err != nil {
			return nil, fmt.Errorf("write report: %w", err)
		}
	}
	return names, nil
}

// Text is the finding's value with its unit.
func (f Finding) Text() string {
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
	const most = 600
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f }), " ")
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return strings.ReplaceAll(s, "|", "\\|")
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
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

// word is one of two words for a fact.
func word(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
