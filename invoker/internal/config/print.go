package config

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/prettyjson"
)

// mask replaces a secret in all output.
const mask = "********"

// Setting is a value in force, or a setting without an effect, ready to be printed:
// secrets are masked.
type Setting struct {
	// Name is the property path. Variable is the environment variable that sets it.
	Name     string `json:"key"`
	Variable string `json:"variable,omitempty"`
	Value    string `json:"value"`
	// Source is "default" or the source of the value.
	Source string `json:"source"`
	// Ignored is the reason why the setting has no effect. Value is empty then.
	Ignored string `json:"ignored,omitempty"`
}

// Ignored returns the settings that this invoker does not use.
func (c *Config) Ignored() []Setting { return slices.Clone(c.ignored) }

// Secrets returns the values that must never be printed.
func (c *Config) Secrets() []string {
	var values []string
	for _, k := range keys(c) {
		v := k.value.text()
		if k.secret && v != "" {
			values = append(values, v)
		}
		for _, login := range logins.FindAllStringSubmatch(v, -1) {
			values = append(values, login[2])
		}
	}
	given := slices.Clone(c.Containers.ExtraEnv)
	for _, option := range secretOptions {
		given = append(given, c.Containers.ExtraArgs[option]...)
	}
	for _, pair := range given {
		if name, v, _ := strings.Cut(pair, "="); v != "" && secretVariable.MatchString(name) {
			values = append(values, v)
		}
	}
	return values
}

// secretOptions are the options of docker run whose K=V may hold secrets.
var secretOptions = []string{"env", "e", "log-opt", "label"}

// maskPairs masks V in each K=V.
func maskPairs(all []string) []string {
	masked := make([]string, len(all))
	for i, pair := range all {
		if name, _, is := strings.Cut(pair, "="); is {
			pair = name + "=" + mask
		}
		masked[i] = pair
	}
	return masked
}

// logins finds the passwords in URLs.
var logins = regexp.MustCompile(`(://[^/@:\s]*:)([^/@\s]+)@`)

func maskLogins(text string) string { return logins.ReplaceAllString(text, "${1}"+mask+"@") }

// allSettings returns the settings for printing: the arguments, the mode, every key in the order
// of the documentation, and the ignored settings.
func (c *Config) allSettings() []Setting {
	return slices.Concat(c.Identity.settings(), []Setting{c.mode()}, c.settings, c.ignored)
}

// mode returns how the invoker gets its work (classic or scheduler mode), and the key
// that decides it.
func (c *Config) mode() Setting {
	s := Setting{Name: "mode", Value: "classic", Source: "default"}
	if c.Scheduler.Enabled {
		s.Value, s.Source = "scheduler", "as whisk.etcd.hosts"
	}
	if c.Providers.Invoker != "" {
		s.Source = "as whisk.spi.InvokerProvider"
	}
	return s
}

// Print writes every setting with its source, then the ignored settings.
func (c *Config) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tVALUE\tSOURCE")
	for _, s := range c.allSettings() {
		value := oneLine(s.Value)
		if s.Ignored != "" {
			value = "ignored: " + s.Ignored
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.Name, value, s.Source)
	}
	return t.Flush()
}

// PrintJSON writes the same settings as a JSON array, with untruncated values.
func (c *Config) PrintJSON(w io.Writer) error {
	return prettyjson.Write(w, c.allSettings())
}

// settings returns the identity arguments, which have no keys.
func (id Identity) settings() []Setting {
	number := func(n *int) string {
		if n == nil {
			return ""
		}
		return fmt.Sprint(*n)
	}
	all := []Setting{
		{Name: "--id", Value: number(id.ID)},
		{Name: "--uniqueName", Value: id.UniqueName},
		{Name: "--displayedName", Value: id.DisplayedName},
		{Name: "--overwriteId", Value: number(id.OverwriteID)},
	}
	for i := range all {
		if all[i].Source = "command line"; all[i].Value == "" {
			all[i].Source = "default"
		}
	}
	return all
}

func listSettings(all []*key) []Setting {
	out := make([]Setting, len(all))
	for i, k := range all {
		text := maskLogins(k.value.text())
		if k.secret && text != "" {
			text = mask
		}
		out[i] = Setting{Name: k.name, Variable: k.variable(), Value: text, Source: cmp.Or(k.source, "default")}
	}
	return out
}

var secretWords = regexp.MustCompile(`(?i)password|secret|jaas|credential|passphrase|keystore\.key`)

// secretVariable matches names of variables that hold secrets.
var secretVariable = regexp.MustCompile(`(?i)pass|secret|credential|token|key|auth`)

// secretName reports whether the value of a property that is not a key may be secret.
func secretName(name string) bool { return secretWords.MatchString(name) }

// oneLine shortens a value to one line. The manifest is long and has line breaks.
func oneLine(s string) string {
	const most = 120
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
