package runargs

import "strings"

// Environ joins lists of variables. Of several values for a name the last one
// counts: a process that is given two may take either.
func Environ(lists ...[]string) []string {
	var joined []string
	at := map[string]int{}
	for _, list := range lists {
		for _, entry := range list {
			name, _, _ := strings.Cut(entry, "=")
			if i, again := at[name]; again {
				joined[i] = entry
				continue
			}
			at[name] = len(joined)
			joined = append(joined, entry)
		}
	}
	return joined
}
