package config

import (
	"fmt"
	"strings"
)

//go:generate go test . -run TestDocument -update

// Document is the reference of all keys in Markdown: docs/configuration.md.
func Document() string {
	var b strings.Builder
	b.WriteString(documentHead)
	section := ""
	for _, k := range Keys() {
		if k.section != section {
			section = k.section
			fmt.Fprintf(&b, "\n## %s\n\n| key | variable | default | allowed | effect |\n|---|---|---|---|---|\n", section)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n",
			code(k.Name), code(k.Variable()), code(k.shownDefault()), cell(k.Allowed()), cell(k.Doc))
	}
	b.WriteString("\n## Accepted without effect\n\n| key | why |\n|---|---|\n")
	for _, w := range without {
		name := w.name
		if strings.HasSuffix(name, ".") {
			name += "*"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", code(name), w.why)
	}
	return b.String()
}

// documentHead explains what the tables leave out.
const documentHead = `# Configuration

<!-- Generated from invoker/config; after a change of a key run
     go test ./invoker/config -run TestDocument -update -->

The invoker reads what an OpenWhisk deployment hands to its own invoker; what
it does not use it ignores, and ` + "`gpuwhisk invoker --print-config`" + ` lists every
value with its source, secrets masked, and everything ignored with the reason.

Where a key is given several times, the last of these wins:

1. the default;
2. a plain variable of the key (` + "`METRICS_KAMON`, `DOCKER_HOST`" + `, ...);
3. HOCON in ` + "`OPENWHISK_CONFIG`" + `, or base64 of it in ` + "`OPENWHISK_ENCODED_CONFIG`" + `;
4. ` + "`-Dkey=value` in `JAVA_OPTS`, then in `INVOKER_OPTS`" + `;
5. the variable ` + "`CONFIG_...`" + ` of the table. Empty variables are ignored; a value
   ` + "`$NAME`" + ` stands for the variable of that name.

Keys whose variable does not begin with ` + "`CONFIG_`, `METRICS_` or `DOCKER_`" + ` come, weakest
first, from ` + "`-Dwhisk-config.key=value`" + `, from their variable, and from a
file ` + "`whisk.properties`" + ` in the working directory or one above it.

Sizes: ` + "`512 m`, `2g`, `4 MiB`" + ` are powers of 1024; ` + "`kB`, `MB`, `GB`" + ` are powers of
1000; a bare number is bytes. Durations: ` + "`100 ms`, `10 minutes`, `5m`, `1 d`, `Inf`" + `.
An unknown key below ` + "`whisk.gpu`" + ` and a value that is not allowed stop the start.

Arguments: ` + "`--id N`" + ` sets the invoker's number; without it ` + "`--uniqueName S`" + ` has
ZooKeeper keep one for that name, and ` + "`--overwriteId N`" + ` takes over a number
there. ` + "`--displayedName S`" + ` is shown to people. The last one of a kind wins.
`

func (k *Key) shownDefault() string {
	switch {
	case k.like != "":
		return "as " + k.like
	case k.required:
		return "(required)"
	case k.defaults != nil:
		return joinPairs(k.defaults)
	}
	return k.Default
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

// cell keeps a text inside its cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
