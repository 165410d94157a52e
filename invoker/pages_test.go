package invoker

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var (
	linkIn   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headOf   = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced   = regexp.MustCompile("(?ms)^```.*?^```")
	unspoken = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names by which a page's headings are linked to.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headOf.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		all[strings.ReplaceAll(unspoken.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}

// TestLinksOfPagesLead: each link of a page to another file, and to a heading
// in one, leads there.
func TestLinksOfPagesLead(t *testing.T) {
	var pages []string
	for _, in := range []string{".", "docs", "docs/*", "examples", "ansible", "docker/*"} {
		found, err := filepath.Glob(filepath.Join("..", in, "*.md"))
		check.NoError(t, err)
		pages = append(pages, found...)
	}
	links := 0
	for _, page := range pages {
		name := strings.TrimPrefix(page, "../")
		text, err := os.ReadFile(page)
		check.NoError(t, err)
		for _, m := range linkIn.FindAllStringSubmatch(fenced.ReplaceAllString(string(text), ""), -1) {
			file, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, ":") {
				continue // to the web
			}
			links++
			to := page
			if file != "" {
				to = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
				continue
			}
			if heading == "" {
				continue
			}
			there, err := os.ReadFile(to)
			if err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if !anchors(string(there))[heading] {
				t.Errorf("%s links to %s, and no heading there has that name", name, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links were found in all pages: are they read?", links)
	}
}

// TestArchitectureNamesTheFilesThatMakeEvents: ARCHITECTURE.md lists the files that make
// events of the GPU scheduler.
func TestArchitectureNamesTheFilesThatMakeEvents(t *testing.T) {
	page, err := os.ReadFile("../ARCHITECTURE.md")
	check.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "It makes the events, together with ")
	check.That(check.Must(t), found, "the sentence about events is gone")
	sentence, _, _ := strings.Cut(rest, "\n[")
	files, err := filepath.Glob("*.go")
	check.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check.NoError(t, err)
		makes := regexp.MustCompile(`scheduler\.Event[{(]`).Match(text) && !strings.HasSuffix(file, "_test.go") && file != "gpu.go"
		check.Equal(t, strings.Contains(sentence, "`"+file+"`"), makes, "%s makes events", file)
	}
}
