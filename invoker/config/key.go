package config

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
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
	also     []string // older or shorter names, in order of precedence
	like     string   // key whose value is the default
	required bool
	// byPolicy keys have the scheduling policy's own value until they are set.
	byPolicy bool
	// plain keys come from the plain environment and whisk.properties, and
	// from the JVM only under "whisk-config.".
	plain bool
	// source is where the value came from, empty for the default; refused that
	// it was not allowed.
	source  string
	refused bool
}

// Keys lists every setting of the invoker.
func Keys() []*Key { return keys(new(Config)) }

// tagged lists the keys of a struct and of the structs in it. Their tags are
//
//	key:"name[,required][,plain][,secret]"  the name, and what Key has of these
//	env, default, like, doc:"text"          as Key has them
//	also:"name[,name...]"                   as Key has them
//	section:"text"                          of a struct: the documentation's
//
// and those that say what values are allowed, see valueOf.
func tagged(v reflect.Value, section string) []*Key {
	var all []*Key
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("key"), ",")
		switch {
		case name != "":
			option := func(word string) bool { return slices.Contains(strings.Split(options, ","), word) }
			all = append(all, &Key{
				Name: name, Env: f.Tag.Get("env"), Default: f.Tag.Get("default"), Doc: f.Tag.Get("doc"),
				required: option("required"), plain: option("plain"), Secret: option("secret"),
				also: splitCommas(f.Tag.Get("also")), like: f.Tag.Get("like"), section: section,
				value: valueOf(v.Field(i).Addr().Interface(), f.Tag, option("secret")),
			})
		case f.IsExported() && f.Type.Kind() == reflect.Struct:
			all = append(all, tagged(v.Field(i), cmp.Or(f.Tag.Get("section"), section))...)
		}
	}
	return all
}

// Variable is the environment variable that sets the key.
func (k *Key) Variable() string { return cmp.Or(k.Env, variable(k.Name)) }

// Allowed describes what the value may be.
func (k *Key) Allowed() string { return k.value.allowed }

// open reports whether the key stands for all paths below its name.
func (k *Key) open() bool { return strings.HasSuffix(k.Name, ".*") }

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

var dashes = regexp.MustCompile(`-.`)

// variable is the inverse of property.
func variable(name string) string {
	name = dashes.ReplaceAllStringFunc(name, func(m string) string { return strings.ToUpper(m[1:]) })
	return variablePrefix + strings.ReplaceAll(name, ".", "_")
}
