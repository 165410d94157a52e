package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// node is a place in the tree of properties: a value, or a branch. Sources are
// put in from the weakest to the strongest.
type node struct {
	leaf
	below map[string]*node // nil: it is a value
	// list branches were written as one: a later source that numbers elements
	// replaces the whole list.
	list bool
	used bool // a key has taken the value
}

// leaf is one property value and where it came from.
type leaf struct{ text, source string }

func newTree() *node { return &node{below: map[string]*node{}} }

// find is the node at a path, or nil.
func (n *node) find(path string) *node {
	for part := range strings.SplitSeq(path, ".") {
		if n == nil {
			return nil
		}
		n = n.below[part]
	}
	return n
}

// put replaces whatever is at path by a value.
func (n *node) put(path string, l leaf) { n.insert(path, &node{leaf: l}) }

// putList replaces whatever is at path by a list.
func (n *node) putList(path string, elements []string, source string) {
	list := &node{leaf: leaf{"", source}} // an empty list is an empty value
	for i, element := range elements {
		list.put(strconv.Itoa(i), leaf{element, source})
	}
	list.list = len(elements) > 0
	n.insert(path, list)
}

func (n *node) insert(path string, v *node) {
	if n.below == nil || n.list {
		n.below, n.list = map[string]*node{}, false
	}
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		n.below[name] = v
		return
	}
	if n.below[name] == nil {
		n.below[name] = new(node)
	}
	n.below[name].insert(rest, v)
}

// walk calls visit for each value from here, in the order of the paths.
func (n *node) walk(path string, visit func(path string, v *node)) {
	if n.below == nil {
		visit(path, n)
	}
	for _, name := range slices.Sorted(maps.Keys(n.below)) {
		n.below[name].walk(strings.TrimPrefix(path+"."+name, "."), visit)
	}
}

// take lists the values from here that no key has used, and marks them as used. The
// source is the last one's.
func (n *node) take() (entries []entry, source string) {
	n.walk("", func(path string, v *node) {
		if !v.used {
			v.used = true
			entries, source = append(entries, entry{path, v.text}), v.source
		}
	})
	return entries, source
}
