package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ours begins every key of this project; below it nothing is ignored.
const ours = "whisk.gpu"

// leftOver sorts what no key took: paths of ours are mistakes, others belong
// to parts of OpenWhisk that this invoker does not have.
func leftOver(all []*Key, s *sources) (problems []error, ignored []Setting) {
	for _, path := range slices.Sorted(maps.Keys(s.tree)) {
		l := s.tree[path]
		switch {
		case s.taken[path] || strings.HasPrefix(path, "whisk-config."):
		case strings.HasPrefix(path, ours):
			problems = append(problems, unknown(all, path, l))
		default:
			ignored = append(ignored, Setting{Name: path, Variable: variable(path), Source: l.source})
		}
	}
	return problems, ignored
}

func unknown(all []*Key, path string, l leaf) error {
	var names []string
	for _, k := range all {
		if strings.HasPrefix(k.Name, ours) {
			names = append(names, k.Name)
		}
	}
	near := nearest(path, names)
	return fmt.Errorf("%s (from %s): no such key (its value is %q); the nearest is %s, set by %s; all keys: gpuwhisk invoker --print-config",
		path, l.source, l.text, near, variable(near))
}

// nearest is the name with the least edit distance, the first of equals.
func nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
