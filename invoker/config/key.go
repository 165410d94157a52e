package config

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// key describes one setting: its names, its default and what it does.
type key struct {
	// name is the property path, or the dotted name in whisk.properties. A
	// last part "*" stands for any path below.
	name string
	// env is the variable that sets the key when it does not follow from the
	// name.
	env      string
	also     []string // older or shorter names, in order of precedence
	standard string   // text of the default value; empty: unset
	like     string   // key whose value is the default
	doc      string   // what the key does
	section  string   // of the documentation
	value    value
	required bool
	secret   bool // the value is never printed
	pairs    bool // of K=V in the value, V is never printed
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

// tagged lists the keys of a struct and of the structs in it. Their tags are
//
//	key:"name[,required][,plain][,secret][,pairs][,policy]"  the name, and what key has of these
//	env, default, like:"text"                        as key has them; default is standard
//	doc:"text"                                       likewise; without it that of the key before
//	also:"name[,name...]"                            as key has them
//	section:"text"                                   of a struct: the documentation's
//
// and those of the values that are allowed, see valueOf.
func tagged(v reflect.Value, section string) []*key {
	var all []*key
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("key"), ",")
		switch {
		case name != "":
			doc := f.Tag.Get("doc")
			if doc == "" {
				doc = all[len(all)-1].doc
			}
			option := func(word string) bool { return slices.Contains(strings.Split(options, ","), word) }
			all = append(all, &key{
				name: name, env: f.Tag.Get("env"), also: splitCommas(f.Tag.Get("also")),
				standard: f.Tag.Get("default"), like: f.Tag.Get("like"), doc: doc, section: section,
				required: option("required"), plain: option("plain"), secret: option("secret"), pairs: option("pairs"), byPolicy: option("policy"),
				value: valueOf(v.Field(i).Addr().Interface(), f.Tag, option("secret")),
			})
		case f.IsExported() && f.Type.Kind() == reflect.Struct:
			all = append(all, tagged(v.Field(i), cmp.Or(f.Tag.Get("section"), section))...)
		}
	}
	return all
}

// variable is the environment variable that sets the key.
func (k *key) variable() string { return cmp.Or(k.env, variable(k.name)) }

// open reports whether the key stands for all paths below its name.
func (k *key) open() bool { return strings.HasSuffix(k.name, ".*") }

// names are all property paths of the key, best first.
func (k *key) names() []string { return append([]string{k.name}, k.also...) }

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
