package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Input holds the text of all sources. Nothing else is read.
type Input struct {
	// Environ is the environment, as "NAME=value".
	Environ []string
	// Settings are the values of the flag --set, as "key=value". They override all other
	// sources.
	Settings []string
	// Args are the identity arguments: --id, --uniqueName, --displayedName,
	// --overwriteId.
	Args []string
	// Properties is the text of whisk.properties and PropertiesPath its path. Both are
	// empty if there is no such file.
	Properties     string
	PropertiesPath string
}

// Default returns the configuration without any source, from which standalone and tests
// start. Required settings are empty.
func Default() *Config {
	c, _, problems := fill(newTree())
	if len(problems) > 0 {
		panic(errors.Join(problems...)) // a key refuses its own default
	}
	return c
}

// Load creates the configuration. Its error is a Problems with every mistake. A
// configuration that is returned with an error may be printed, but not used.
func Load(in Input) (*Config, error) {
	tree, problems := gather(in)
	c, all, more := fill(tree)
	problems = append(problems, more...)
	if err := parseArgs(in.Args, &c.Identity); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, missing(all)...)
	problems = append(problems, validate(c)...)
	if len(problems) > 0 {
		return c, Problems(problems)
	}
	return c, nil
}

// Given reads the settings that a user adds to a deployment, and lists the keys that
// they set. Unlike Load, it does not demand required keys, and it refuses every setting
// without an effect.
func Given(in Input) (*Config, []Setting, error) {
	tree, problems := gather(in)
	c, all := empty()
	problems = append(problems, assign(all, tree)...)
	set := slices.DeleteFunc(listSettings(all), func(s Setting) bool { return s.Source == "default" })
	unknown, ignored := leftOver(all, tree)
	problems = append(problems, unknown...)
	for _, s := range ignored {
		problems = append(problems, fmt.Errorf("%s (from %s) has no effect: %s; the nearest key is %s",
			s.Name, s.Source, s.Ignored, nearest(all, s.Name).name))
	}
	if len(problems) > 0 {
		return c, set, Problems(problems)
	}
	return c, set, nil
}

// empty returns a configuration before any key is set, and its keys.
func empty() (*Config, []*key) {
	c := &Config{GPU: GPU{Tokens: gpu.DefaultTokens()}}
	return c, keys(c)
}

// fill sets every key of a new configuration from the sources.
func fill(tree *node) (*Config, []*key, []error) {
	c, all := empty()
	problems := assign(all, tree)
	resolveDefaults(c, all)
	c.settings = listSettings(all)
	unknown, ignored := leftOver(all, tree)
	c.ignored = ignored
	return c, all, append(problems, unknown...)
}

// assign sets all keys: first the keys for a single path, then the keys for any path
// below their name, from the remaining values.
func assign(all []*key, tree *node) (problems []error) {
	for _, open := range []bool{false, true} {
		for _, k := range all {
			if k.open() != open {
				continue
			}
			if k.standard != "" {
				if err := k.value.setText(k.standard); err != nil {
					panic(fmt.Sprintf("default %q of %s: %v", k.standard, k.name, err))
				}
			}
			if err := tree.apply(k); err != nil {
				problems = append(problems, err)
			}
		}
	}
	return problems
}

// resolveDefaults sets the keys whose default is another key's value, the keys that the
// service providers decide, and the message size that follows from the payload limit.
func resolveDefaults(c *Config, all []*key) {
	byName := map[string]*key{}
	for _, k := range all {
		byName[k.name] = k
	}
	for _, k := range all {
		if k.defaultFrom != "" && k.source == "" {
			// Both have the same kind of value, so the text of one is valid for the
			// other.
			_ = k.value.setText(byName[k.defaultFrom].value.text())
			k.source = "as " + k.defaultFrom
		}
	}
	c.GPU.complete(func(name string) bool { return byName[name].source != "" })
	for _, k := range all {
		if k.byPolicy && k.source == "" {
			k.source = "policy " + c.GPU.Policy
		}
	}
	if c.Records.Store == "" {
		byName["whisk.gpu.records.store"].source = "as whisk.spi.ActivationStoreProvider"
	}
	c.provide()
	const size = "max.message.bytes"
	if _, given := c.Kafka.TopicConfig[size]; !given {
		c.Kafka.TopicConfig[size] = fmt.Sprint(int64(c.Limits.maxMessage()))
	}
}

// missing returns an error with all required settings that no source gave, and the ways
// to set them.
func missing(all []*key) []error {
	var names []string
	for _, k := range all {
		if k.required && !k.refused && (k.source == "" || k.value.text() == "") {
			names = append(names, k.variable())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []error{fmt.Errorf("not set: %s; set each as an environment variable "+
		"(whisk.* keys may also stand in OPENWHISK_CONFIG, plain ones in whisk.properties)", strings.Join(names, ", "))}
}

// Problems lists every mistake of a configuration, each in one line.
type Problems []error

// Error returns the number of problems and lists them.
func (p Problems) Error() string {
	if len(p) == 1 {
		return "load configuration: " + p[0].Error()
	}
	return fmt.Sprintf("load configuration: %d problems\n%v", len(p), errors.Join(p...))
}

func (p Problems) Unwrap() []error { return p }
