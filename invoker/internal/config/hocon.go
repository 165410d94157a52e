package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// No library for HOCON fits: a value's text must reach its key unchanged ("1024 m" is a
// size for one key and a duration for another), substitutions must use the environment
// that was passed in, errors must not repeat the text, which may be secret, and no
// document may exhaust the memory.

// A value of a document is a string, a list, an object, or nil (null, or an optional
// substitution without a value). Until resolve has run, it may also be a *hoconPending.
type (
	hoconList   []any
	hoconObject map[string]any
)

// hoconPending is a value that depends on other values: a substitution (path), values
// written side by side (parts), or a new value (top) for a key that already had one
// (base).
type hoconPending struct {
	line      int
	busy      bool // resolve is working on it, so a second visit is a cycle
	path      string
	optional  bool // ${?path}
	parts     []hoconPart
	base, top any
}

// hoconPart is one of several values written side by side, and the blanks before it.
type hoconPart struct {
	gap   string
	value any
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
func parseHOCON(doc string, env func(string) (string, bool)) (hoconObject, error) {
	root, err := parseHOCONText(doc)
	if err != nil {
		return nil, err
	}
	r := &hoconResolver{root: root, env: env}
	_, err = r.resolve(root, 0)
	return root, err
}

// flatten calls visit for each text and each list of texts, in the order of their paths.
func (o hoconObject) flatten(path string, visit func(path string, v any)) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		switch v := o[name].(type) {
		case hoconObject:
			v.flatten(at, visit)
		case hoconList:
			texts := []string{}
			for _, element := range v {
				if text, ok := element.(string); ok {
					texts = append(texts, text)
				}
			}
			visit(at, texts)
		case string:
			visit(at, v)
		}
	}
}

// insert sets the value at a path of keys. It merges objects on the way.
func (o hoconObject) insert(keys []string, v any) {
	if len(keys) > 1 {
		below := hoconObject{}
		below.insert(keys[1:], v)
		v = below
	}
	o[keys[0]] = mergeValues(o[keys[0]], v)
}

// mergeValues combines the old and the new value of a key: objects merge, any other value
// replaces the old one, and resolve decides later if either is pending.
func mergeValues(base, top any) any {
	lower, object := base.(hoconObject)
	upper, merges := top.(hoconObject)
	_, pending := top.(*hoconPending)
	_, undecided := base.(*hoconPending)
	switch {
	case object && merges:
		merged := maps.Clone(lower)
		for name, v := range upper {
			merged[name] = mergeValues(merged[name], v)
		}
		return merged
	case base != nil && pending, undecided && merges:
		return &hoconPending{base: base, top: top}
	}
	return top
}

// hoconResolver replaces references by their values.
type hoconResolver struct {
	root  hoconObject
	env   func(string) (string, bool)
	leafs int
	bytes int
}

// resolve replaces all pending values in v, in place.
func (r *hoconResolver) resolve(v any, depth int) (any, error) {
	if err := r.grow(1, 0); err != nil || depth > 4*hoconDepth {
		return nil, errHOCONSize
	}
	switch v := v.(type) {
	case hoconObject:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			field, err := r.resolve(v[name], depth+1)
			if err != nil {
				return nil, err
			}
			v[name] = field
		}
	case hoconList:
		for i := range v {
			element, err := r.resolve(v[i], depth+1)
			if err != nil {
				return nil, err
			}
			v[i] = element
		}
	case *hoconPending:
		return r.decide(v, depth)
	}
	return v, nil
}

func (r *hoconResolver) decide(p *hoconPending, depth int) (any, error) {
	switch {
	case p.busy && p.top != nil: // a reference to the earlier value of the same key
		return r.resolve(p.base, depth+1)
	case p.busy:
		return nil, fmt.Errorf("line %d: %w", p.line, errHOCONSelf)
	}
	p.busy = true
	defer func() { p.busy = false }()
	switch {
	case p.path != "":
		return r.reference(p, depth)
	case p.parts != nil:
		return r.sequence(p, depth)
	}
	top, err := r.resolve(p.top, depth+1)
	if _, merges := top.(hoconObject); err != nil || top != nil && !merges {
		return top, err
	}
	base, err := r.resolve(p.base, depth+1)
	if err != nil || top == nil {
		return base, err
	}
	return r.resolve(mergeValues(base, top), depth+1)
}

func (r *hoconResolver) reference(p *hoconPending, depth int) (any, error) {
	found, err := r.lookup(p.path, depth)
	if p.optional && errors.Is(err, errHOCONSelf) {
		err = nil // the key has no earlier value
	}
	if err != nil || found != nil {
		return found, err
	}
	if text, ok := r.env(p.path); ok {
		return text, nil
	}
	if !p.optional {
		return nil, fmt.Errorf("line %d: ${%s} stands for nothing", p.line, p.path)
	}
	return nil, nil
}

// lookup walks from the root to the referenced path. It returns nil if nothing is there.
func (r *hoconResolver) lookup(path string, depth int) (at any, err error) {
	at = r.root
	for name := range strings.SplitSeq(path, ".") {
		object, _ := at.(hoconObject)
		at = object[name]
		if p, pending := at.(*hoconPending); pending { // resolve the rest on demand
			if at, err = r.resolve(p, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return r.resolve(at, depth+1)
}

// sequence joins values written side by side: texts into a text, lists into a list,
// objects into an object.
func (r *hoconResolver) sequence(p *hoconPending, depth int) (sum any, err error) {
	gap := ""
	for _, part := range p.parts {
		v, err := r.resolve(part.value, depth+1)
		if err != nil {
			return nil, err
		}
		if gap += part.gap; v == nil {
			continue
		}
		if sum, err = r.join(sum, v, gap); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
		gap = ""
	}
	return sum, nil
}

func (r *hoconResolver) join(sum, part any, gap string) (any, error) {
	switch a := sum.(type) {
	case nil:
		return part, nil
	case string:
		if b, ok := part.(string); ok {
			return a + gap + b, r.grow(0, len(a)+len(gap)+len(b))
		}
	case hoconList:
		if b, ok := part.(hoconList); ok {
			return slices.Concat(a, b), r.grow(len(a)+len(b), 0)
		}
	case hoconObject:
		if _, ok := part.(hoconObject); ok {
			return mergeValues(a, part), nil
		}
	}
	return nil, errors.New("a text, a list and an object cannot be joined")
}

// grow counts the size of the resolved document. It returns an error above the limits.
func (r *hoconResolver) grow(leafs, bytes int) error {
	r.leafs, r.bytes = r.leafs+leafs, r.bytes+bytes
	if r.leafs > hoconLeafs || r.bytes > hoconBytes {
		return errHOCONSize
	}
	return nil
}
