package doctor

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
)

// colours holds the colours of the signs on a terminal.
var colours = map[Status]string{OK: "\x1b[32m", Warn: "\x1b[33m", Fail: "\x1b[31m", Skip: "\x1b[2m"}

// margin is the column at which the text of a line begins.
const margin = 2 + 4 + 2 + 16 + 1

// Print writes a line for each result, and a last line with their counts. Lines are
// broken at the width; zero means no limit.
func (r Report) Print(w io.Writer, colour bool, width int) error {
	var out strings.Builder
	group := ""
	for _, x := range r {
		if group != "" && x.Group != group {
			out.WriteByte('\n')
		}
		if x.Group != group {
			fmt.Fprintln(&out, x.Group)
		}
		group = x.Group
		sign := fmt.Sprintf("%-4.4s", x.Status)
		if colour {
			sign = colours[x.Status] + sign + "\x1b[0m"
		}
		text := oneLine(x.Found)
		if x.Fix != "" {
			text += ". Fix: " + oneLine(x.Fix)
		}
		fmt.Fprintf(&out, "  %s  %-16s %s\n", sign, x.Check, wrap(text, width-margin))
	}
	fmt.Fprintf(&out, "\n%s\n", r.summary())
	_, err := io.WriteString(w, out.String())
	return err
}

// wrap breaks a text between words at a width, and indents it to the margin.
func wrap(text string, width int) string {
	const least, most = 30, 1000 // below the least width, the terminal breaks lines better
	if width < least {
		return text
	}
	lines := regexp.MustCompile(fmt.Sprintf(`(\S{%d,}|.{1,%[1]d})(?:\s+|$)`, min(width, most))).FindAllStringSubmatch(text, -1)
	var out []string
	for _, line := range lines {
		out = append(out, line[1])
	}
	return strings.Join(out, "\n"+strings.Repeat(" ", margin))
}

func (r Report) summary() string {
	n := map[Status]int{}
	for _, x := range r {
		n[x.Status]++
	}
	verdict := map[Status]string{OK: "All is well", Warn: "It works, with warnings", Fail: "Something will fail"}
	text := fmt.Sprintf("%s: %d ok, %d warn, %d fail", verdict[r.worst()], n[OK], n[Warn], n[Fail])
	if n[Skip] > 0 {
		text += fmt.Sprintf(", %d skip (not configured)", n[Skip])
	}
	return text + "."
}

// PrintJSON writes the report as one JSON object.
func (r Report) PrintJSON(w io.Writer) error {
	return prettyjson.Write(w, struct {
		Status Status `json:"status"`
		Checks Report `json:"checks"`
	}{r.worst(), append(Report{}, r...)}) // an empty report is a list, too
}

// oneLine shortens the text of another program to one line of limited length. It removes
// control characters, so that none reach the terminal.
func oneLine(s string) string {
	separates := func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }
	s = strings.Join(strings.FieldsFunc(s, separates), " ")
	const most = 600
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// masked removes every secret of the configuration from a report, because the error of a
// peer may contain secrets anywhere.
func (m *Machine) masked(r Report) Report {
	secrets := m.Config.Secrets()
	if login, err := m.Config.Kafka.Login(); err == nil && login != nil {
		secrets = append(secrets, login.Password)
	}
	// Longer secrets first, because a secret may begin with another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		const least = 4 // a shorter secret would match ordinary words
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
