package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

//go:generate go test . -run TestDocument -update

// operators are the keys that most deployments set or look up, in the order in
// which an operator meets them.
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

// document is the reference of all keys in Markdown: docs/configuration.md. The
// keys that operators need come first, by their variables.
func document() string {
	var b strings.Builder
	b.WriteString(documentHead)
	b.WriteString("\n## What operators set\n\n| variable | default | effect |\n|---|---|---|\n")
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

// row is what a table has of keys that belong together.
func row(family []*key, name func(*key) string) string {
	return fmt.Sprintf("| %s | %s | %s |\n", code(familyName(family, name)), code(familyDefaults(family)), cell(effect(family)))
}

// related is how many of the first keys share a row: they have one description,
// and their names differ in one part.
func related(keys []*key) int {
	n := 1
	for n < len(keys) && keys[n].section == keys[0].section && keys[n].doc == keys[0].doc {
		n++
	}
	return n
}

// listedName is the name by which a key is listed.
func (k *key) listedName() string { return cmp.Or(k.env, k.name) }

// familyName writes several names as one, with what differs in braces.
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

// familyDefaults lists the defaults in the order of the names: one where all are
// the same, none where a namespace's limits are those of the system.
func familyDefaults(family []*key) string {
	texts := make([]string, len(family))
	for i, k := range family {
		texts[i] = k.defaultText()
		if k.like != "" {
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

// effect is what the keys do, with the values that they may have where those are
// their own.
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

// documentHead explains what the tables leave out.
const documentHead = `# Configuration

<!-- Generated from invoker/config; after a change of a key run
     go test ./invoker/config -run TestDocument -update -->

The invoker reads what an OpenWhisk deployment hands to its own invoker.
` + "`gpuwhisk invoker --print-config`" + ` lists every value with its source, secrets masked, and
everything ignored with the reason.

The variable of a key is ` + "`CONFIG_`" + ` and its name, with ` + "`_`" + ` for ` + "`.`" + ` and a capital letter
for a dash and the letter behind it: ` + "`whisk.gpu.pool-size`" + ` is
` + "`CONFIG_whisk_gpu_poolSize`" + `. Names in capital letters are variables themselves. Braces
stand for several names, whose defaults have the same order. Of several sources the
last wins:

1. the default;
2. a plain variable of the key (` + "`METRICS_KAMON`" + `, ` + "`DOCKER_HOST`" + `, ...);
3. HOCON in ` + "`OPENWHISK_CONFIG`" + `, or base64 of it in ` + "`OPENWHISK_ENCODED_CONFIG`" + `;
4. ` + "`-Dkey=value`" + ` in ` + "`JAVA_OPTS`" + `, then in ` + "`INVOKER_OPTS`" + `;
5. the variable ` + "`CONFIG_...`" + `. Empty variables are ignored; a value ` + "`$NAME`" + `
   stands for the variable of that name.

Plain variables other than ` + "`METRICS_*`" + ` and ` + "`DOCKER_*`" + ` may also come, weaker, from
` + "`-Dwhisk-config.key=value`" + `, and, stronger, from a file ` + "`whisk.properties`" + ` in the
working directory or one above it.

Sizes: ` + "`512 m`" + `, ` + "`2g`" + `, ` + "`4 MiB`" + ` are powers of 1024; ` + "`kB`" + `, ` + "`MB`" + `, ` + "`GB`" + ` are powers of
1000; a bare number is bytes. Durations: ` + "`100 ms`" + `, ` + "`10 minutes`" + `, ` + "`5m`" + `, ` + "`1 d`" + `, ` + "`Inf`" + `.
Lists are separated by commas. An unknown key below ` + "`whisk.gpu`" + ` and a value that
is not allowed stop the start.

` + "`gpuwhisk standalone`" + ` takes these keys, too: as ` + "`CONFIG_whisk_...`" + ` variables, or, stronger,
as ` + "`--set whisk.gpu.pool-size=1`" + `. It refuses unknown keys and names the flag for those that
it sets itself (Kafka, the database, ports, ...).

Arguments: ` + "`--id N`" + ` sets the invoker's number; without it ` + "`--uniqueName S`" + ` has
ZooKeeper keep one for that name, and ` + "`--overwriteId N`" + ` takes over a number
there. ` + "`--displayedName S`" + ` is shown to people. The last one of a kind wins.

Each invoker has a directory of its own name below those of the journal, of records
that wait and of dead letters, which are in ` + "`whisk.gpu.state`" + ` where they are not set.
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

// cell keeps a text inside its cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
