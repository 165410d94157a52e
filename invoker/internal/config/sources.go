package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// plainPrefix precedes plain names such as kafka.hosts in the tree of property paths.
// The JVM uses the same prefix.
const plainPrefix = "whisk-config."

// gather reads all inputs from the weakest to the strongest: plain variables of single
// keys, HOCON, -D options of JAVA_OPTS and INVOKER_OPTS, CONFIG_ variables, --set. Plain
// names have a separate order: -Dwhisk-config.name, the environment, whisk.properties,
// --set.
func gather(in Input) (*node, []error) {
	env := environment(in.Environ)
	tree, all := newTree(), keys(new(Config))
	for _, k := range all {
		if v := env[k.env]; k.env != "" && !k.plain && strings.TrimSpace(v) != "" {
			tree.put(k.name, leaf{v, k.env})
		}
	}
	var problems []error
	if err := tree.addHOCON(env); err != nil {
		problems = append(problems, err)
	}
	for _, name := range []string{"JAVA_OPTS", "INVOKER_OPTS"} {
		if err := tree.addOptions(env[name], name); err != nil {
			problems = append(problems, err)
		}
	}
	tree.addVariables(env)
	file := propertiesFile(in.Properties)
	for _, k := range all {
		for _, l := range []leaf{{env[k.env], k.env}, {file[k.name], in.PropertiesPath}} {
			if k.plain && strings.TrimSpace(l.text) != "" {
				tree.put(plainPrefix+k.name, l)
			}
		}
	}
	if err := tree.addSettings(in.Settings, all); err != nil {
		problems = append(problems, err)
	}
	return tree, problems
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
func (n *node) addHOCON(env map[string]string) error {
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
			n.putList(path, v, name)
		case string:
			n.put(path, leaf{v, name})
		}
	})
	return nil
}

// addOptions reads the -Dkey=value options of a JVM command line.
func (n *node) addOptions(line, name string) error {
	options, err := systemProperties(line)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	for _, o := range options {
		n.put(o.path, leaf{o.text, "-D in " + name})
	}
	return nil
}

// addVariables reads the CONFIG_ variables. It ignores empty variables, because
// deployments set dozens of these. A value "$NAME" is replaced by that variable if it is
// not empty (transformEnvironment.sh).
func (n *node) addVariables(env map[string]string) {
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
			n.put(path, leaf{v, name})
		}
	}
}

// addSettings reads settings of the form key=value.
func (n *node) addSettings(settings []string, all []*key) error {
	for _, setting := range settings {
		name, text, ok := strings.Cut(setting, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return fmt.Errorf("--set %s: want KEY=VALUE", name)
		}
		if slices.ContainsFunc(all, func(k *key) bool { return k.plain && k.name == name }) {
			name = plainPrefix + name
		}
		n.put(name, leaf{text, "--set"})
	}
	return nil
}

// apply sets k from the strongest source that has it. A blank value of a plain key does
// not replace a weaker value.
func (n *node) apply(k *key) error {
	// Weaker names first, so that the preferred name wins.
	for _, name := range slices.Backward(k.names()) {
		path := strings.TrimSuffix(name, ".*")
		if k.plain {
			path = plainPrefix + path
		}
		at := n.find(path)
		switch {
		case at == nil, at.below == nil && k.open(), at.below != nil && !k.value.below:
			continue
		}
		given, source := at.consume()
		if len(given) == 0 || k.plain && strings.TrimSpace(given[0].text) == "" {
			continue
		}
		if err := k.set(name, given, source); err != nil {
			return err
		}
	}
	return nil
}

// set sets k to the value that a source has under a name. Its error contains no secrets.
func (k *key) set(name string, given []entry, source string) error {
	k.source = source
	err := k.value.set(given)
	if err == nil {
		return nil
	}
	k.refused = true
	text := maskLogins(asText(given))
	if k.secret || k.pairs {
		text = mask
	}
	if errors.Is(err, errBad) {
		return fmt.Errorf("%s: %q (from %s) is not allowed; allowed: %s", name, text, source, k.value.allowed)
	}
	return fmt.Errorf("%s: %q (from %s): %w", name, text, source, err)
}

// asText shows the entries of a source for a key as one text.
func asText(entries []entry) string {
	parts := make([]string, len(entries))
	for i, e := range entries {
		parts[i] = strings.TrimPrefix(e.path+"="+e.text, "=")
	}
	return joinCommas(parts)
}
