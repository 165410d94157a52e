package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

//go:generate go test . -run TestDocument -update

// operators lists the keys that most deployments set or look up, in the order in which
// an operator needs them.
var operators = []string{
	"kafka.hosts", "whisk.kafka.topics.prefix", "zookeeper.hosts",
	"whisk.couchdb.protocol", "whisk.couchdb.host", "whisk.couchdb.port", "whisk.couchdb.username", "whisk.couchdb.password",
	"whisk.couchdb.databases.WhiskAuth", "whisk.couchdb.databases.WhiskEntity", "whisk.couchdb.databases.WhiskActivation",
	"runtimes.manifest", "whisk.api.host.name", "port", "whisk.invoker.username", "whisk.invoker.password",
	"whisk.container-pool.user-memory", "whisk.gpu.devices", "whisk.gpu.policy", "whisk.gpu.tokens",
	"whisk.gpu.weights", "whisk.gpu.limits", "whisk.gpu.namespace-limits", "whisk.gpu.pool-size",
	"whisk.gpu.default-memory", "whisk.gpu.mps", "whisk.gpu.forward-to", "whisk.gpu.docker.devices",
	"whisk.gpu.state", "whisk.gpu.drain-deadline", "whisk.gpu.handover", "whisk.gpu.log.level",
}

// document renders the reference of all keys as Markdown, docs/configuration.md. The
// keys that operators need come first, by their variables.
func document() string {
	var b strings.Builder
	b.WriteString(documentHead)
	b.WriteString("\n## Settings for operators\n\n| variable | default | effect |\n|---|---|---|\n")
	all := keys(new(Config))
	first := make([]*key, len(operators))
	for i, name := range operators {
		first[i] = all[slices.IndexFunc(all, func(k *key) bool { return k.name == name })]
	}
	for len(first) > 0 {
		family := first[:related(first)]
		first = first[len(family):]
		b.WriteString(row(family, (*key).variable))
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(k *key) bool { return slices.Contains(operators, k.name) })
	section := ""
	for len(rest) > 0 {
		family := rest[:related(rest)]
		rest = rest[len(family):]
		if family[0].section != section {
			section = family[0].section
			fmt.Fprintf(&b, "\n## %s\n\n| key | default | effect |\n|---|---|---|\n", section)
		}
		b.WriteString(row(family, (*key).listedName))
	}
	names := make([]string, len(without))
	for i, w := range without {
		names[i] = code(w.name)
		if strings.HasSuffix(w.name, ".") {
			names[i] = code(w.name + "*")
		}
	}
	fmt.Fprintf(&b, "\n## Accepted without effect\n\n%s. `--print-config` says why.\n", strings.Join(names, ", "))
	return b.String()
}

// row renders the table row of a family of keys.
func row(family []*key, name func(*key) string) string {
	return fmt.Sprintf("| %s | %s | %s |\n", code(familyName(family, name)), code(familyDefaults(family)), cell(effect(family)))
}

// related returns how many of the first keys share a row: they have the same
// description, and their names differ in one part.
func related(keys []*key) int {
	n := 1
	for n < len(keys) && keys[n].section == keys[0].section && keys[n].doc == keys[0].doc {
		n++
	}
	return n
}

// listedName returns the name of the key in the tables: its variable, or else its path.
func (k *key) listedName() string { return cmp.Or(k.env, k.name) }

// familyName writes several names as one, with the differing parts in braces.
func familyName(family []*key, name func(*key) string) string {
	first := name(family[0])
	if len(family) == 1 {
		return first
	}
	prefix := first
	for _, k := range family[1:] {
		for !strings.HasPrefix(name(k), prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	prefix = prefix[:strings.LastIndexAny(prefix, ".-_")+1]
	suffix := strings.TrimPrefix(first, prefix)
	for _, k := range family[1:] {
		for !strings.HasSuffix(strings.TrimPrefix(name(k), prefix), suffix) {
			suffix = suffix[1:]
		}
	}
	if at := strings.IndexAny(suffix, ".-_"); at >= 0 {
		suffix = suffix[at:]
	} else {
		suffix = ""
	}
	parts := make([]string, len(family))
	for i, k := range family {
		parts[i] = strings.TrimSuffix(strings.TrimPrefix(name(k), prefix), suffix)
	}
	return prefix + "{" + strings.Join(parts, ",") + "}" + suffix
}

// familyDefaults lists the defaults in the order of the names. It returns a single
// default if all are equal, and nothing for the limits of a namespace, whose defaults
// are the system's limits.
func familyDefaults(family []*key) string {
	texts := make([]string, len(family))
	for i, k := range family {
		texts[i] = k.defaultText()
		if k.defaultFrom != "" {
			texts[i] = "(the system's)"
		}
	}
	if len(slices.Compact(slices.Clone(texts))) == 1 {
		return texts[0]
	}
	for i, text := range texts {
		texts[i] = cmp.Or(text, "(none)")
	}
	return strings.Join(texts, ", ")
}

// effect returns the description of the keys, with the allowed values if they are
// special to these keys.
func effect(family []*key) string {
	var allowed []string
	for _, k := range family {
		if !k.value.special {
			continue
		}
		values := strings.TrimPrefix(k.value.allowed, "class name ending in ")
		if values == k.standard {
			values = "no other"
		}
		if values = strings.ReplaceAll(values, " | ", ", "); !slices.Contains(allowed, values) {
			allowed = append(allowed, values)
		}
	}
	if len(allowed) == 0 {
		return family[0].doc
	}
	return family[0].doc + " (" + strings.Join(allowed, "; ") + ")"
}

// documentHead explains the columns and rules that the tables do not repeat.
const documentHead = `# Configuration

<!-- Generated from invoker/internal/config; after a change of a key run
     go test ./invoker/internal/config -run TestDocument -update -->

The invoker reads the same settings that an OpenWhisk deployment passes to its own invoker.
` + "`gpuwhisk invoker --print-config`" + ` lists every value with its source, secrets masked, and
every ignored setting with the reason.

The variable of a key is ` + "`CONFIG_`" + ` and its name, with ` + "`_`" + ` for ` + "`.`" + ` and a capital letter
for a dash and the letter after it: ` + "`whisk.gpu.pool-size`" + ` is
` + "`CONFIG_whisk_gpu_poolSize`" + `. Names in capital letters are variables themselves. Braces
enclose alternatives in several names, whose defaults have the same order. The default
` + "`(by policy)`" + ` depends on ` + "`whisk.gpu.policy`" + `; ` + "`--print-config`" + ` shows its value. If several
sources set a key, the last one in this list wins:

1. the default;
2. a plain variable of the key (` + "`METRICS_KAMON`" + `, ` + "`DOCKER_HOST`" + `, ...);
3. HOCON in ` + "`OPENWHISK_CONFIG`" + `, or base64 of it in ` + "`OPENWHISK_ENCODED_CONFIG`" + `;
4. ` + "`-Dkey=value`" + ` in ` + "`JAVA_OPTS`" + `, then in ` + "`INVOKER_OPTS`" + `;
5. the variable ` + "`CONFIG_...`" + `. Empty variables are ignored; a value ` + "`$NAME`" + `
   stands for the variable of that name.

Plain variables other than ` + "`METRICS_*`" + ` and ` + "`DOCKER_*`" + ` may also be set by
` + "`-Dwhisk-config.key=value`" + `, which the variable overrides, and by a file
` + "`whisk.properties`" + ` in the working directory or a parent, which overrides the variable.

Sizes: ` + "`512 m`" + `, ` + "`2g`" + `, ` + "`4 MiB`" + ` are powers of 1024; ` + "`kB`" + `, ` + "`MB`" + `, ` + "`GB`" + ` are powers of
1000; a bare number is bytes. Durations: ` + "`100 ms`" + `, ` + "`10 minutes`" + `, ` + "`5m`" + `, ` + "`1 d`" + `, ` + "`Inf`" + `.
Lists are separated by commas. The invoker does not start with an unknown
key below ` + "`whisk.gpu`" + ` or a value that is not allowed.

` + "`gpuwhisk standalone`" + ` takes these keys, too: as ` + "`CONFIG_whisk_...`" + ` variables, or as
` + "`--set whisk.gpu.pool-size=1`" + `, which overrides the variables. It refuses unknown keys. For a
key that it sets itself (Kafka, the database, ports, ...), its error names the flag to use.

Arguments: ` + "`--id N`" + ` sets the invoker's number. Without it, ZooKeeper assigns a number to
the name in ` + "`--uniqueName S`" + `, and ` + "`--overwriteId N`" + ` takes over a number
there. ` + "`--displayedName S`" + ` is shown to people. If an argument is repeated, the last one wins.

The directories of the journal, of waiting records and of dead letters are in
` + "`whisk.gpu.state`" + ` unless they are set. In each directory, each invoker has a
subdirectory of its own name.
`

func (k *key) defaultText() string {
	switch {
	case k.byPolicy:
		return "(by policy)"
	case k.required:
		return "(required)"
	}
	return k.standard
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

// cell escapes a text for a table cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
