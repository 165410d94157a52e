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
// the strongest; a path cannot be both a value and a branch.
type tree map[string]leaf

func (t tree) put(path string, l leaf) {
	for other, old := range t {
		switch {
		case below(other, path) || below(path, other):
			delete(t, other)
		case old.array && !l.array && parent(other) == parent(path):
			delete(t, other)
		}
	}
	t[path] = l
}

// putList replaces whatever is at path by a list.
func (t tree) putList(path string, items []string, source string) {
	t.put(path, leaf{"", source, true})
	if len(items) > 0 {
		delete(t, path)
	}
	for i, item := range items {
		t[path+"."+strconv.Itoa(i)] = leaf{item, source, true}
	}
}

// under lists the entries below path, sorted, and the source of the last one.
func (t tree) under(path string) (entries []entry, source string) {
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if below(name, path) {
			entries = append(entries, entry{name[len(path)+1:], t[name].text})
			source = t[name].source
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
