package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// colours of the signs on a terminal.
var colours = map[Status]string{OK: "\x1b[32m", Warn: "\x1b[33m", Fail: "\x1b[31m", Skip: "\x1b[2m"}

const plain = "\x1b[0m"

// Print writes a line for each result, and a last one that counts them. Lines
// are broken at the width, if there is one.
func (r Report) Print(w io.Writer, colour bool, width int) error {
	var out strings.Builder
	group := ""
	for _, x := range r {
		if x.Group != group {
			if group != "" {
				out.WriteByte('\n')
			}
			group = x.Group
			fmt.Fprintln(&out, group)
		}
		text := oneLine(x.Found)
		if x.Fix != "" {
			text += ". Fix: " + oneLine(x.Fix)
		}
		fmt.Fprintf(&out, "  %s  %-16s %s\n", sign(x.Status, colour), x.Check, wrap(text, width))
	}
	fmt.Fprintf(&out, "\n%s\n", r.summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// margin is the column at which the text of a line begins.
const margin = 2 + 4 + 2 + 16 + 1

// wrap breaks a text between words so that it ends at a width and begins at
// the margin.
func wrap(text string, width int) string {
	width -= margin
	const least = 30 // less is worse to read than what the terminal makes of it
	if width < least {
		return text
	}
	var out strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case at+1+n > width:
			out.WriteString("\n" + strings.Repeat(" ", margin))
			at = 0
		default:
			out.WriteByte(' ')
			at++
		}
		out.WriteString(word)
		at += n
	}
	return out.String()
}

func sign(s Status, colour bool) string {
	word := s.String()
	if s == Skip {
		word = "skip"
	}
	text := fmt.Sprintf("%-4s", word)
	if !colour {
		return text
	}
	return colours[s] + text + plain
}

func (r Report) summary() string {
	var n [4]int
	for _, x := range r {
		n[x.Status]++
	}
	verdict := "All is well"
	switch {
	case n[Fail] > 0:
		verdict = "Something will fail"
	case n[Warn] > 0:
		verdict = "It works, with warnings"
	}
	text := fmt.Sprintf("%s: %d ok, %d to look at, %d that fail", verdict, n[OK], n[Warn], n[Fail])
	if n[Skip] > 0 {
		text += fmt.Sprintf(", %d skipped since nothing is configured for them", n[Skip])
	}
	return text + "."
}

// PrintJSON writes the report as one JSON object.
func (r Report) PrintJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Status Status `json:"status"`
		Checks Report `json:"checks"`
	}{r.Worst(), append(Report{}, r...)}) // an empty one is a list, too
}

// oneLine keeps other programs' text on its line, and within reason. Control
// characters of others' texts do not reach the terminal.
func oneLine(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	const most = 600
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// masked takes every secret of the configuration out of a report, wherever a
// peer's error may have put it.
func (m *Machine) masked(r Report) Report {
	var pairs []string
	for _, secret := range append(m.Config.Secrets(), m.kafkaPassword()) {
		const least = 4 // a shorter one would be found in ordinary words
		if len(secret) >= least {
			pairs = append(pairs, secret, "********")
		}
	}
	mask := strings.NewReplacer(pairs...)
	for i := range r {
		r[i].Found, r[i].Fix = mask.Replace(r[i].Found), mask.Replace(r[i].Fix)
	}
	return r
}

func (m *Machine) kafkaPassword() string {
	if login, err := m.Config.Kafka.Login(); err == nil && login != nil {
		return login.Password
	}
	return ""
}
