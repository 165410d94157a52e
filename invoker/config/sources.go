package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// sources is what the inputs set, before any key interprets it.
type sources struct {
	tree  *node           // property paths
	plain map[string]leaf // plain names such as kafka.hosts
}

// leaf is one property value and where it came from.
type leaf struct{ text, source string }

func newSources() *sources {
	return &sources{tree: &node{below: map[string]*node{}}, plain: map[string]leaf{}}
}

// gather reads all inputs from the weakest to the strongest:
// plain variables of single keys, HOCON, -D options of JAVA_OPTS and
// INVOKER_OPTS, CONFIG_ variables. Plain names have an order of their own:
// -Dwhisk-config.name, the environment, whisk.properties.
func gather(in Input) (*sources, []error) {
	env := environment(in.Environ)
	s := newSources()
	for _, k := range keys(new(Config)) {
		if v := env[k.env]; k.env != "" && !k.plain && strings.TrimSpace(v) != "" {
			s.tree.put(k.name, leaf{v, k.env})
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
	s.addPlain(env, in)
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
	root.flatten("", func(path string, v any) {
		switch v := v.(type) {
		case []string:
			s.tree.putList(path, v, name)
		case string:
			s.tree.put(path, leaf{v, name})
		}
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
		s.tree.put(o.path, leaf{o.text, "-D in " + name})
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
			s.tree.put(path, leaf{v, name})
		}
	}
}

// addPlain reads the plain names. Blank values leave what was there.
func (s *sources) addPlain(env map[string]string, in Input) {
	file := propertiesFile(in.Properties)
	for _, k := range keys(new(Config)) {
		if !k.plain {
			continue
		}
		option := s.tree.find("whisk-config." + k.name).value()
		for _, l := range []leaf{option, {env[k.env], k.env}, {file[k.name], in.PropertiesPath}} {
			if text := strings.TrimSpace(l.text); text != "" {
				s.plain[k.name] = leaf{text, l.source}
			}
		}
	}
}

// apply sets k from the strongest source that names it.
func (s *sources) apply(k *key) error {
	if k.plain {
		if l, ok := s.plain[k.name]; ok {
			return k.set(k.name, []entry{{"", l.text}}, l.source)
		}
		return nil
	}
	// Weaker names first, so that the best one has the last word.
	for _, name := range slices.Backward(k.names()) {
		n := s.tree.find(strings.TrimSuffix(name, ".*"))
		switch {
		case n == nil, n.below == nil && k.open(), n.below != nil && !k.value.below:
			continue
		}
		if given, source := n.take(); len(given) > 0 {
			if err := k.set(name, given, source); err != nil {
				return err
			}
		}
	}
	return nil
}

// set gives k what a source has under a name. Its error is without secrets.
func (k *key) set(name string, given []entry, source string) error {
	k.source = source
	err := k.value.set(given)
	if err == nil {
		return nil
	}
	k.refused = true
	text := asText(given)
	if k.secret {
		text = mask
	}
	if errors.Is(err, errBad) {
		return fmt.Errorf("%s: %q (from %s) is not allowed; allowed: %s", name, text, source, k.allowed())
	}
	return fmt.Errorf("%s: %q (from %s): %w", name, text, source, err)
}

// asText shows what a source gives to a key in one text.
func asText(entries []entry) string {
	parts := make([]string, len(entries))
	for i, e := range entries {
		parts[i] = strings.TrimPrefix(e.path+"="+e.text, "=")
	}
	return joinCommas(parts)
}
