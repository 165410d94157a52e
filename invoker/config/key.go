package config

import (
	"regexp"
	"strings"
)

// Key describes one setting: its names, its default and what it does.
type Key struct {
	// Name is the property path, or the dotted name in whisk.properties. A
	// last part "*" stands for any path below.
	Name string
	// Env is the variable that sets the key when it does not follow from
	// Name.
	Env string
	// Default is the text of the default value; empty means unset.
	Default string
	// Doc is what the key does.
	Doc string
	// Secret values are never printed.
	Secret bool

	section  string // of the documentation
	value    value
	also     []string          // older or shorter names, in order of precedence
	like     string            // key whose value is the default
	defaults map[string]string // defaults below a "*"
	required bool
	// byPolicy keys have the scheduling policy's own value until they are set.
	byPolicy bool
	// legacy keys come from the plain environment and whisk.properties, and
	// from the JVM only under "whisk-config.".
	legacy bool
	// source is where the value came from, empty for the default; refused that
	// it was not allowed.
	source  string
	refused bool
}

// Keys lists every setting that the invoker knows.
func Keys() []*Key { return keys(new(Config)) }

// Variable is the environment variable that sets the key.
func (k *Key) Variable() string {
	if k.Env != "" {
		return k.Env
	}
	return variable(k.Name)
}

// Allowed describes what the value may be.
func (k *Key) Allowed() string { return k.value.allowed }

// open reports whether the key stands for all paths below its name.
func (k *Key) open() bool { return strings.HasSuffix(k.Name, ".*") }

// prefix is the path, with its dot, that an open key stands for.
func (k *Key) prefix() string { return strings.TrimSuffix(k.Name, "*") }

// names are all property paths of the key, best first.
func (k *Key) names() []string { return append([]string{k.Name}, k.also...) }

const variablePrefix = "CONFIG_"

var humps = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// property turns the name of a CONFIG_ variable into a property path as
// OpenWhisk's transformEnvironment.sh does: parts are separated by
// underscores, camelCase becomes kebab-case, a part that begins with a capital
// letter stays as it is.
func property(variable string) string {
	parts := strings.FieldsFunc(strings.TrimPrefix(variable, variablePrefix), func(r rune) bool { return r == '_' })
	for i, part := range parts {
		if part[0] < 'A' || part[0] > 'Z' {
			parts[i] = humps.ReplaceAllStringFunc(part, func(m string) string {
				return m[:1] + "-" + strings.ToLower(m[1:])
			})
		}
	}
	return strings.Join(parts, ".")
}

// variable is the inverse of property.
func variable(name string) string {
	var b strings.Builder
	b.WriteString(variablePrefix)
	up := false
	for _, r := range name {
		switch {
		case r == '.':
			b.WriteByte('_')
		case r == '-':
			up = true
			continue
		case up:
			b.WriteString(strings.ToUpper(string(r)))
		default:
			b.WriteRune(r)
		}
		up = false
	}
	return b.String()
}
