package invoker

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// This test measures how plainly the comments and the pages are written. Two habits make
// technical English hard to read, and both can be counted: a clause that stands where a noun
// belongs ("what is pulled is not tried"), and a pronoun that stands where a name belongs.
// CONTRIBUTING.md says how to write instead.

var (
	nounClause = regexp.MustCompile(`\b[Ww]hat\b|\b(?:that which|[Tt]hose that|the one that|[Oo]ne that|[Ww]hoever|[Ww]hichever)\b`)
	// "what is the" and "what are the" begin a question, which is plain.
	whatIs    = regexp.MustCompile(`\b[Ww]hat (?:is|are) the\b`)
	farNoun   = regexp.MustCompile(`\b(?:of|for|behind|beside|among|than) (?:it|them|that|those|these)\b`)
	fencePage = regexp.MustCompile("(?ms)^```.*?^```")
)

const (
	// A package or a page may have this many of either per 1,000 words.
	mostPerThousand = 4.0
	// All comments and pages together may have this many.
	mostClausesOverAll, mostPronounsOverAll = 2.0, 1.5
	// Shorter texts are not measured: one clause would be too many.
	fewestWords = 200
)

// prose counts the words, noun clauses and pronouns of a text.
type prose struct{ words, clauses, pronouns int }

func (p *prose) add(text string) {
	p.words += len(strings.Fields(text))
	p.clauses += len(nounClause.FindAllString(text, -1)) - len(whatIs.FindAllString(text, -1))
	p.pronouns += len(farNoun.FindAllString(text, -1))
}

func (p *prose) perThousand(n int) float64 { return 1000 * float64(n) / float64(p.words) }

// plain reports whether the text is short or within the bounds.
func (p *prose) plain() bool {
	return p.words < fewestWords || p.perThousand(p.clauses) <= mostPerThousand && p.perThousand(p.pronouns) <= mostPerThousand
}

func TestCommentsAndPagesArePlain(t *testing.T) {
	texts := map[string]*prose{}
	of := func(name string) *prose {
		if texts[name] == nil {
			texts[name] = &prose{}
		}
		return texts[name]
	}
	check.NoError(t, filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(name, ".."), string(filepath.Separator)))
		if d.IsDir() {
			if rel != "" && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "build", "dist", "node_modules"}, d.Name())) {
				return filepath.SkipDir
			}
			return nil
		}
		switch {
		case strings.HasSuffix(rel, ".md"):
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			of(rel).add(fencePage.ReplaceAllString(string(text), ""))
		case strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, ".pb.go"):
			parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, c := range parsed.Comments {
				of(path.Dir(rel)).add(c.Text())
			}
		}
		return nil
	}))
	var all prose
	for name, p := range texts {
		all.words, all.clauses, all.pronouns = all.words+p.words, all.clauses+p.clauses, all.pronouns+p.pronouns
		if !p.plain() {
			t.Errorf("%s: %.1f noun clauses and %.1f pronouns in place of names per 1,000 words; at most %.1f of each: CONTRIBUTING.md says how to write",
				name, p.perThousand(p.clauses), p.perThousand(p.pronouns), mostPerThousand)
		}
	}
	check.AtMost(t, all.perThousand(all.clauses), mostClausesOverAll)
	check.AtMost(t, all.perThousand(all.pronouns), mostPronounsOverAll)
}
