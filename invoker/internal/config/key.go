package config

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// key describes one setting: its names, its default and its effect.
type key struct {
	// name is the property path, or the dotted name in whisk.properties. A last part "*"
	// matches any path below.
	name string
	// env is the variable that sets the key, if it cannot be derived from the name.
	env         string
	also        []string // older or shorter names, in order of precedence
	standard    string   // text of the default value; empty: unset
	defaultFrom string   // key whose value is the default
	doc         string   // description in the documentation
	section     string   // section of the documentation
	value       value
	required    bool
	secret      bool // the value is never printed
	pairs       bool // a list of K=V whose V is never printed
	// byPolicy keys have the scheduling policy's default until they are set.
	byPolicy bool
	// plain keys come from the plain environment and whisk.properties. The JVM sets them
	// only under "whisk-config.".
	plain bool
	// source names the source of the value, empty for the default. refused is true if
	// the value was not allowed.
	source  string
	refused bool
}

// tagged lists the keys of a struct and of its nested structs. The tags of a field are
//
//	key:"name[,required][,plain][,secret][,pairs][,policy]"  the name and the flags of key
//	env, default, like:"text"                                fields of key; default is standard
//	doc:"text"                                               the description; the previous key's if missing
//	also:"name[,name...]"                                    other names
//	section:"text"                                           of a struct: the section of the documentation
//
// and the tags for the allowed values, see valueOf.
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
				standard: f.Tag.Get("default"), defaultFrom: f.Tag.Get("like"), doc: doc, section: section,
				required: option("required"), plain: option("plain"), secret: option("secret"), pairs: option("pairs"), byPolicy: option("policy"),
				value: valueOf(v.Field(i).Addr().Interface(), f.Tag, option("secret")),
			})
		case f.IsExported() && f.Type.Kind() == reflect.Struct:
			all = append(all, tagged(v.Field(i), cmp.Or(f.Tag.Get("section"), section))...)
		}
	}
	return all
}

// variable returns the environment variable that sets the key.
func (k *key) variable() string { return cmp.Or(k.env, variable(k.name)) }

// open reports whether the key stands for all paths below its name.
func (k *key) open() bool { return strings.HasSuffix(k.name, ".*") }

// names returns all property paths of the key, in order of precedence.
func (k *key) names() []string { return append([]string{k.name}, k.also...) }

const variablePrefix = "CONFIG_"

var humps = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// property turns the name of a CONFIG_ variable into a property path as OpenWhisk's
// transformEnvironment.sh does: underscores separate the parts, camelCase becomes
// kebab-case, and a part that begins with a capital letter is unchanged.
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
