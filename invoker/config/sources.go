package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// sources is what the inputs set, before any key interprets it.
type sources struct {
	tree   *tree           // property paths
	legacy map[string]leaf // plain names such as kafka.hosts
	taken  map[string]bool // paths of the tree that a key has used
}

func newSources() *sources {
	return &sources{tree: newTree(), legacy: map[string]leaf{}, taken: map[string]bool{}}
}

// gather reads all inputs from the weakest to the strongest:
// plain variables of single keys, HOCON, -D options of JAVA_OPTS and
// INVOKER_OPTS, CONFIG_ variables. Plain names have an order of their own:
// -Dwhisk-config.name, the environment, whisk.properties.
func gather(in Input) (*sources, []error) {
	env := environment(in.Environ)
	s := newSources()
	for _, k := range keys(new(Config)) {
		if v := env[k.Env]; k.Env != "" && !k.legacy && strings.TrimSpace(v) != "" {
			s.tree.put(k.Name, leaf{v, k.Env, false})
		}
	}
	var problems []error
	if err := s.addHOCON(env); err != nil {
		problems = append(problems, err)
	}
	for _, name := range []string{"JAVA_OPTS", "INVOKER_OPTS"} {
		if err := s.addOptions(env[name], name); err != nil {
			problems = append(problems, err)
		}
	}
	s.addVariables(env)
	s.addLegacy(env, in)
	return s, problems
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, one := range environ {
		if name, v, ok := strings.Cut(one, "="); ok {
			env[name] = v
		}
	}
	return env
}

// addHOCON reads OPENWHISK_CONFIG, or else OPENWHISK_ENCODED_CONFIG.
func (s *sources) addHOCON(env map[string]string) error {
	name, doc := "OPENWHISK_CONFIG", env["OPENWHISK_CONFIG"]
	if doc == "" {
		name = "OPENWHISK_ENCODED_CONFIG"
		raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(env[name]), ""))
		if err != nil {
			return fmt.Errorf("decode %s: not base64: %w", name, err)
		}
		doc = string(raw)
	}
	root, err := parseHOCON(doc, func(v string) (string, bool) { text, ok := env[v]; return text, ok })
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	root.flatten("", func(path string, v *hoconValue) {
		if v.kind == hoconList {
			s.tree.putList(path, v.texts(), name)
			return
		}
		s.tree.put(path, leaf{v.text, name, false})
	})
	return nil
}

// addOptions reads the -Dkey=value options of a JVM command line.
func (s *sources) addOptions(line, name string) error {
	options, err := systemProperties(line)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	for _, o := range options {
		s.tree.put(o.path, leaf{o.text, "-D in " + name, false})
	}
	return nil
}

// addVariables reads the CONFIG_ variables. Empty ones are ignored:
// deployments set dozens of them. A value "$NAME" stands for that variable,
// when it is not empty (transformEnvironment.sh).
func (s *sources) addVariables(env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		path := property(name)
		if !strings.HasPrefix(name, variablePrefix) || path == "" {
			continue
		}
		v := env[name]
		if strings.HasPrefix(v, "$") && env[v[1:]] != "" {
			v = env[v[1:]]
		}
		if v != "" {
			s.tree.put(path, leaf{v, name, false})
		}
	}
}

func (s *sources) addLegacy(env map[string]string, in Input) {
	file := propertiesFile(in.Properties)
	for _, k := range keys(new(Config)) {
		if !k.legacy {
			continue
		}
		if l, ok := s.tree.values["whisk-config."+k.Name]; ok {
			s.setLegacy(k.Name, l.text, l.source)
		}
		s.setLegacy(k.Name, env[k.Env], k.Env)
		s.setLegacy(k.Name, file[k.Name], in.PropertiesPath)
	}
}

// setLegacy lets blank values leave what was there.
func (s *sources) setLegacy(name, text, source string) {
	if text = strings.TrimSpace(text); text != "" {
		s.legacy[name] = leaf{text, source, false}
	}
}

// apply sets k from the strongest source that names it.
func (s *sources) apply(k *Key) error {
	if k.legacy {
		l, ok := s.legacy[k.Name]
		if !ok {
			return nil
		}
		return set(k, k.Name, l.text, l.source)
	}
	// Weaker names first, so that the best one has the last word.
	for _, name := range slices.Backward(k.names()) {
		if err := s.applyName(k, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *sources) applyName(k *Key, name string) error {
	if l, ok := s.tree.values[name]; ok {
		s.take(name)
		return set(k, name, l.text, l.source)
	}
	if k.value.setBelow == nil {
		return nil
	}
	entries, source := s.tree.under(name)
	if len(entries) == 0 {
		return nil
	}
	for _, e := range entries {
		s.take(name + "." + e.path)
	}
	k.source = source
	return refuse(k, name, asText(entries), source, k.value.setBelow(entries))
}

// applyOpen sets a key that stands for all paths below its own.
func (s *sources) applyOpen(k *Key) error {
	base := strings.TrimSuffix(k.prefix(), ".")
	merged := map[string]string{}
	maps.Copy(merged, k.defaults)
	below, source := s.tree.under(base)
	var entries []entry
	for _, e := range below {
		if !s.taken[base+"."+e.path] {
			s.take(base + "." + e.path)
			entries = append(entries, e)
			k.source = source
		}
	}
	for name, v := range k.defaults {
		if !slices.ContainsFunc(entries, func(e entry) bool { return strings.ReplaceAll(e.path, "-", ".") == name }) {
			entries = append(entries, entry{name, v})
		}
	}
	return refuse(k, k.Name, asText(entries), source, k.value.setBelow(entries))
}

func (s *sources) take(path string) { s.taken[path] = true }

// set gives k its text and remembers the source.
func set(k *Key, name, text, source string) error {
	k.source = source
	return refuse(k, name, text, source, k.value.set(text))
}

// refuse makes the error of a value, without secrets.
func refuse(k *Key, name, text, source string, err error) error {
	if err == nil {
		return nil
	}
	k.refused = true
	if k.Secret {
		text = mask
	}
	if errors.Is(err, errBad) {
		return fmt.Errorf("%s: %q (from %s) is not allowed; allowed: %s", name, text, source, k.Allowed())
	}
	return fmt.Errorf("%s: %q (from %s): %w", name, text, source, err)
}

// asText shows the paths below a key in one text.
func asText(entries []entry) string {
	parts := make([]string, len(entries))
	for i, e := range entries {
		parts[i] = e.path + "=" + e.text
	}
	return strings.Join(parts, ",")
}

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

// put replaces whatever is at path by a value.
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

// putList replaces whatever is at path by a list.
func (t *tree) putList(path string, elements []string, source string) {
	t.put(path, leaf{"", source, false})
	for i, element := range elements {
		t.put(path+"."+strconv.Itoa(i), leaf{element, source, true})
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
