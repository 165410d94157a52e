package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// leaf is one property value and where it came from.
type leaf struct {
	text   string
	source string
	// array marks an element of a list that was written as one: a later
	// source that numbers elements replaces it as a whole.
	array bool
}

// tree holds property values by path. Sources are put in from the weakest to
// the strongest; no path is both a value and a branch.
type tree struct {
	values map[string]leaf
	// branches are the paths that have, or had, values below them; true where
	// those were elements of an array. They save put from looking through all
	// values.
	branches map[string]bool
}

func newTree() *tree {
	return &tree{values: map[string]leaf{}, branches: map[string]bool{}}
}

// put sets the value at path in place of whatever was there.
func (t *tree) put(path string, l leaf) {
	t.clear(path)
	for up := parent(path); up != ""; up = parent(up) {
		delete(t.values, up)
	}
	if up := parent(path); up != "" {
		if t.branches[up] && !l.array {
			t.clear(up)
		}
		t.branches[up] = t.branches[up] || l.array
		for up = parent(up); up != ""; up = parent(up) {
			if _, known := t.branches[up]; !known {
				t.branches[up] = false
			}
		}
	}
	t.values[path] = l
}

// putList sets a list in place of whatever was at path.
func (t *tree) putList(path string, items []string, source string) {
	t.put(path, leaf{"", source, false})
	for i, item := range items {
		t.put(path+"."+strconv.Itoa(i), leaf{item, source, true})
	}
}

// clear removes everything below path.
func (t *tree) clear(path string) {
	if _, ok := t.branches[path]; !ok {
		return
	}
	delete(t.branches, path)
	maps.DeleteFunc(t.values, func(other string, _ leaf) bool { return below(other, path) })
}

// under lists the entries below path, sorted, and the source of the last one.
func (t *tree) under(path string) (entries []entry, source string) {
	if _, ok := t.branches[path]; !ok {
		return nil, ""
	}
	for _, name := range slices.Sorted(maps.Keys(t.values)) {
		if below(name, path) {
			entries = append(entries, entry{name[len(path)+1:], t.values[name].text})
			source = t.values[name].source
		}
	}
	return entries, source
}

// below reports whether path lies under branch.
func below(path, branch string) bool {
	return len(path) > len(branch) && path[len(branch)] == '.' && path[:len(branch)] == branch
}

func parent(path string) string {
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}
