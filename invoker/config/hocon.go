package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// No library for HOCON serves here: a value's text must reach its key unchanged
// ("1024 m" is a size for one key and a time for another), substitutions must
// come from the environment that was passed in, errors must not repeat the text,
// which may be secret, and no document may take all memory.

type hoconKind int

const (
	hoconNothing hoconKind = iota // an optional substitution without a value, or null
	hoconText
	hoconObject
	hoconList
	hoconReference // ${path} or ${?path}
	hoconSequence  // values written side by side
	hoconOver      // a later value of a key that also had an earlier one
)

// hoconValue is a node of a parsed document. After resolve only nothing, text,
// object and list remain.
type hoconValue struct {
	kind     hoconKind
	text     string // text, or the path of a reference
	fields   map[string]*hoconValue
	elements []*hoconValue // of a list or sequence; base and top of an over
	optional bool          // reference
	line     int
	gap      string // the blanks before it, in a sequence
	busy     bool   // it is being resolved
}

const (
	hoconDepth = 100     // nesting
	hoconLeafs = 100_000 // values after substitution
	hoconBytes = 4 << 20 // text after substitution
)

var (
	errHOCONSize = errors.New("too large after substitution")
	errHOCONSelf = errors.New("a substitution refers to itself")
)

// parseHOCON reads a document and resolves its substitutions, first in the
// document, then by env.
func parseHOCON(doc string, env func(string) (string, bool)) (*hoconValue, error) {
	root, err := parseHOCONText(doc)
	if err != nil {
		return nil, err
	}
	r := &hoconResolver{root: root, env: env}
	return r.resolve(root, 0)
}

// flatten calls visit for each text and each list, in order of their paths.
func (v *hoconValue) flatten(path string, visit func(path string, v *hoconValue)) {
	switch v.kind {
	case hoconText, hoconList:
		if path != "" {
			visit(path, v)
		}
	case hoconObject:
		for _, name := range slices.Sorted(maps.Keys(v.fields)) {
			v.fields[name].flatten(strings.TrimPrefix(path+"."+name, "."), visit)
		}
	}
}

// texts are the text elements of a list.
func (v *hoconValue) texts() (out []string) {
	for _, element := range v.elements {
		if element.kind == hoconText {
			out = append(out, element.text)
		}
	}
	return out
}

// insert sets the value at a path of keys, merging objects on the way.
func (v *hoconValue) insert(keys []string, value *hoconValue) {
	name := keys[0]
	if len(keys) > 1 {
		branch := &hoconValue{kind: hoconObject, fields: map[string]*hoconValue{}, line: value.line}
		branch.insert(keys[1:], value)
		value = branch
	}
	v.fields[name] = over(v.fields[name], value)
}

// over is what a key holds after a further value was given to it: objects
// merge, anything else replaces, and references are decided by resolve.
func over(base, top *hoconValue) *hoconValue {
	switch {
	case base == nil || top.kind == hoconText || top.kind == hoconList || top.kind == hoconNothing:
		return top
	case base.kind == hoconObject && top.kind == hoconObject:
		merged := &hoconValue{kind: hoconObject, fields: maps.Clone(base.fields), line: top.line}
		for name, field := range top.fields {
			merged.fields[name] = over(merged.fields[name], field)
		}
		return merged
	case top.kind == hoconObject && (base.kind == hoconText || base.kind == hoconList || base.kind == hoconNothing):
		return top
	}
	return &hoconValue{kind: hoconOver, elements: []*hoconValue{base, top}, line: top.line}
}

// hoconResolver replaces references by what they stand for.
type hoconResolver struct {
	root  *hoconValue
	env   func(string) (string, bool)
	leafs int
	bytes int
}

// resolve turns v, in place, into nothing, text, an object or a list.
func (r *hoconResolver) resolve(v *hoconValue, depth int) (*hoconValue, error) {
	if r.leafs++; r.leafs > hoconLeafs || depth > 4*hoconDepth {
		return nil, errHOCONSize
	}
	if v.busy { // it refers to itself: to the earlier value of its key
		if v.kind == hoconOver && !v.elements[0].busy {
			return r.resolve(v.elements[0], depth+1)
		}
		return nil, fmt.Errorf("line %d: %w", v.line, errHOCONSelf)
	}
	v.busy = true
	defer func() { v.busy = false }()
	switch v.kind {
	case hoconObject:
		for _, name := range slices.Sorted(maps.Keys(v.fields)) {
			field, err := r.resolve(v.fields[name], depth+1)
			if err != nil {
				return nil, err
			}
			v.fields[name] = field
		}
	case hoconList:
		for i := range v.elements {
			element, err := r.resolve(v.elements[i], depth+1)
			if err != nil {
				return nil, err
			}
			v.elements[i] = element
		}
	case hoconReference:
		return r.reference(v, depth)
	case hoconSequence:
		return r.sequence(v, depth)
	case hoconOver:
		return r.over(v, depth)
	}
	return v, nil
}

func (r *hoconResolver) over(v *hoconValue, depth int) (*hoconValue, error) {
	top, err := r.resolve(v.elements[1], depth+1)
	if err != nil {
		return nil, err
	}
	if top.kind == hoconText || top.kind == hoconList {
		return top, nil
	}
	base, err := r.resolve(v.elements[0], depth+1)
	if err != nil || top.kind == hoconNothing {
		return base, err
	}
	return r.resolve(over(base, top), depth+1)
}

func (r *hoconResolver) reference(v *hoconValue, depth int) (*hoconValue, error) {
	found, err := r.lookup(v, depth)
	if v.optional && errors.Is(err, errHOCONSelf) {
		err = nil // there is no earlier value to refer to
	}
	if err != nil {
		return nil, err
	}
	if found != nil {
		return found, nil
	}
	if text, ok := r.env(v.text); ok {
		return &hoconValue{kind: hoconText, text: text, line: v.line}, nil
	}
	if !v.optional {
		return nil, fmt.Errorf("line %d: ${%s} stands for nothing", v.line, v.text)
	}
	return &hoconValue{kind: hoconNothing, line: v.line}, nil
}

// lookup walks from the root to what a reference names; nil when absent.
func (r *hoconResolver) lookup(v *hoconValue, depth int) (*hoconValue, error) {
	at := r.root
	for _, name := range strings.Split(v.text, ".") {
		next, ok := at.fields[name]
		if at.kind != hoconObject || !ok {
			return nil, nil
		}
		if next.kind == hoconObject {
			at = next // its fields are resolved one by one, on demand
			continue
		}
		resolved, err := r.resolve(next, depth+1)
		if err != nil {
			return nil, err
		}
		at = resolved
	}
	if at.kind == hoconNothing {
		return nil, nil
	}
	return r.resolve(at, depth+1)
}

// sequence joins values written side by side: texts to a text, lists to a
// list, objects to an object.
func (r *hoconResolver) sequence(v *hoconValue, depth int) (*hoconValue, error) {
	sum := &hoconValue{kind: hoconNothing, line: v.line}
	gap := ""
	for _, element := range v.elements {
		part, err := r.resolve(element, depth+1)
		if err != nil {
			return nil, err
		}
		if gap += element.gap; part.kind == hoconNothing {
			continue
		}
		if sum, err = r.join(sum, part, gap); err != nil {
			return nil, err
		}
		gap = ""
	}
	return sum, nil
}

func (r *hoconResolver) join(sum, part *hoconValue, gap string) (*hoconValue, error) {
	switch {
	case sum.kind == hoconNothing:
		return part, nil
	case sum.kind != part.kind:
		return nil, fmt.Errorf("line %d: a text, a list and an object cannot be joined", part.line)
	case sum.kind == hoconText:
		if r.bytes += len(sum.text) + len(gap) + len(part.text); r.bytes > hoconBytes {
			return nil, errHOCONSize
		}
		return &hoconValue{kind: hoconText, text: sum.text + gap + part.text, line: part.line}, nil
	case sum.kind == hoconList:
		if r.leafs += len(sum.elements) + len(part.elements); r.leafs > hoconLeafs {
			return nil, errHOCONSize
		}
		return &hoconValue{kind: hoconList, elements: slices.Concat(sum.elements, part.elements), line: part.line}, nil
	}
	return over(sum, part), nil
}
