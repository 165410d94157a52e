package top

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Print writes a snapshot as plain text.
func Print(w io.Writer, s *Snapshot, by, filter string) error {
	fmt.Fprintln(w, strings.Join(head(s), "\n"))
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(columns(), "\t")))
	for _, r := range arrange(rows(s), by, filter) {
		fmt.Fprintln(t, strings.Join(cells(r), "\t"))
	}
	return t.Flush()
}
