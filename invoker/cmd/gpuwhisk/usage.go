package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/doctor"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/gpucheck"
)

// parse parses a command line. On a mistake it prints the error with the usage of the
// intended command, and calls kong.Exit.
func parse(c *cli, args []string, with ...kong.Option) (*kong.Context, error) {
	k, err := parser(c, with...)
	if err != nil {
		return nil, err
	}
	ctx, err := k.Parse(plain(args))
	if err != nil {
		k.FatalIfErrorf(wrongUsage{err})
	}
	return ctx, nil
}

// wrongUsage is an error of the command line parser.
type wrongUsage struct{ error }

// ExitCode returns 2, as shells and most programs do for a wrong command line.
func (wrongUsage) ExitCode() int { return 2 }

func (w wrongUsage) Unwrap() error { return w.error }

// Error rewords the parser's error for a flag without a value at the end of the line.
func (w wrongUsage) Error() string {
	text := w.error.Error()
	flag, _, found := strings.Cut(text, ": expected ")
	if found && strings.HasSuffix(text, `but got "EOL" (<EOL>)`) {
		return flag + ": a value is missing"
	}
	return text
}

// parser creates the parser of the command line. The manual is generated from it, too.
func parser(c *cli, with ...kong.Option) (*kong.Kong, error) {
	check := gpucheck.Defaults()
	return kong.New(c, append(with,
		kong.Name("gpuwhisk"),
		kong.Description("GPU functions on Apache OpenWhisk: a drop-in invoker with fair, warm GPU scheduling."),
		kong.ShortUsageOnError(),
		kong.Vars{
			"version":  "gpuwhisk " + version,
			"env_file": "File of settings, as systemd reads it; default, if KAFKA_HOSTS is not set: " + doctor.SettingsFile + " if it exists.",

			"check_swap": size(check.Swap).String(), "check_set": size(check.Set).String(), "check_python": check.Python,
			"check_containers": strconv.Itoa(check.Containers), "check_rounds": strconv.Itoa(check.Rounds), "check_limit": check.Limit.String(),
		},
	)...)
}

// negative matches an argument that is a negative number, which looks like a flag.
var negative = regexp.MustCompile(`^-[0-9]`)

// plain converts arguments into a form that the parser accepts: "help X" becomes "X
// --help", and a negative number after a flag becomes its value, so that the error names
// the flag's limits.
func plain(args []string) []string {
	if len(args) > 0 && args[0] == "help" {
		return slices.Concat(args[1:], []string{"--help"})
	}
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...)
		}
		if strings.HasPrefix(a, "--") && !strings.Contains(a, "=") && i+1 < len(args) && negative.MatchString(args[i+1]) {
			i++
			a += "=" + args[i]
		}
		out = append(out, a)
	}
	return out
}
