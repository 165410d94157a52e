package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// Input is everything a configuration is made of. Nothing else is read.
type Input struct {
	// Environ is the environment, "NAME=value" each.
	Environ []string
	// Settings are "key=value" each, as the flag --set gives them. They win over
	// all other sources.
	Settings []string
	// Args are the identity arguments: --id, --uniqueName, --displayedName,
	// --overwriteId.
	Args []string
	// Properties is the text of whisk.properties and PropertiesPath where it
	// was found; both are empty when there is none.
	Properties     string
	PropertiesPath string
}

// Default is the configuration without any source: what standalone and tests
// start from. Required settings are empty in it.
func Default() *Config {
	c, _, problems := fill(newTree())
	if len(problems) > 0 {
		panic(errors.Join(problems...)) // a default that its own key refuses
	}
	return c
}

// Load makes the configuration. Its error is Problems, of everything wrong with it; the
// configuration that comes with an error is fit to be printed, not used.
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

// Given reads settings that a user adds to those of a deployment, and lists the keys
// that they set. Unlike Load, it demands no required key, and it refuses every setting
// that has no effect.
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

// assign sets all keys: first those that stand for one path, then, from what
// they left, those that stand for any path below theirs.
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

// resolveDefaults resolves the keys whose default is another key's value, what the
// service providers decide, and the message size that follows from the payload limit.
func resolveDefaults(c *Config, all []*key) {
	byName := map[string]*key{}
	for _, k := range all {
		byName[k.name] = k
	}
	for _, k := range all {
		if k.like != "" && k.source == "" {
			// The same kind of value: what one renders the other reads.
			_ = k.value.setText(byName[k.like].value.text())
			k.source = "as " + k.like
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
		c.Kafka.TopicConfig[size] = fmt.Sprint(int64(c.Limits.MaxMessage()))
	}
}

// missing names all required settings that no source gave, and how to give
// them.
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

// Problems are all that is wrong with a configuration: an error of a line each.
type Problems []error

// Error counts and lists them.
func (p Problems) Error() string {
	if len(p) == 1 {
		return "load configuration: " + p[0].Error()
	}
	return fmt.Sprintf("load configuration: %d problems\n%v", len(p), errors.Join(p...))
}

// Unwrap gives each of them.
func (p Problems) Unwrap() []error { return p }
