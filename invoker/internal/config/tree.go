package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// node is a value or a branch in the tree of properties. Sources are added from the
// weakest to the strongest.
type node struct {
	leaf
	below map[string]*node // nil for a value
	// list is true for a branch that was written as a list. A stronger source with
	// numbered elements replaces the whole list.
	list bool
	used bool // a key has consumed the value
}

// leaf is a property value and its source.
type leaf struct{ text, source string }

func newTree() *node { return &node{below: map[string]*node{}} }

// find returns the node at a path, or nil.
func (n *node) find(path string) *node {
	for part := range strings.SplitSeq(path, ".") {
		if n == nil {
			return nil
		}
		n = n.below[part]
	}
	return n
}

// put replaces the node at a path by a value.
func (n *node) put(path string, l leaf) { n.insert(path, &node{leaf: l}) }

// putList replaces the node at a path by a list.
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

// walk calls visit for each value in the subtree, in the order of the paths.
func (n *node) walk(path string, visit func(path string, v *node)) {
	if n.below == nil {
		visit(path, n)
	}
	for _, name := range slices.Sorted(maps.Keys(n.below)) {
		n.below[name].walk(strings.TrimPrefix(path+"."+name, "."), visit)
	}
}

// consume returns the values in the subtree that no key has used yet, and marks them as
// used. The source is that of the last value.
func (n *node) consume() (entries []entry, source string) {
	n.walk("", func(path string, v *node) {
		if !v.used {
			v.used = true
			entries, source = append(entries, entry{path, v.text}), v.source
		}
	})
	return entries, source
}
