package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gpuwhisk/gpuwhisk/invoker/operate/doctor"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/gpucheck"
)

// parse reads a command line. What is wrong with it is reported with the usage of
// the command that was meant, and kong.Exit is called.
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

// wrongUsage is an error of the parser.
type wrongUsage struct{ error }

// ExitCode is the one that shells and most programs have for a wrong command line.
func (wrongUsage) ExitCode() int { return 2 }

func (w wrongUsage) Unwrap() error { return w.error }

// Error rewords that of a flag without its value at the end of a line.
func (w wrongUsage) Error() string {
	text := w.error.Error()
	flag, _, found := strings.Cut(text, ": expected ")
	if found && strings.HasSuffix(text, `but got "EOL" (<EOL>)`) {
		return flag + ": a value is missing"
	}
	return text
}

// parser makes the parser of the command line; the manual is made from it, too.
func parser(c *cli, with ...kong.Option) (*kong.Kong, error) {
	check := gpucheck.Defaults()
	return kong.New(c, append(with,
		kong.Name("gpuwhisk"),
		kong.Description("GPU functions on Apache OpenWhisk: a drop-in invoker with fair, warm GPU scheduling."),
		kong.ShortUsageOnError(),
		kong.Vars{
			"version":  "gpuwhisk " + version,
			"env_file": "Settings as systemd reads them; without it, and without KAFKA_HOSTS here, " + doctor.SettingsFile + " if it is there.",

			"check_swap": size(check.Swap).String(), "check_set": size(check.Set).String(), "check_python": check.Python,
			"check_containers": strconv.Itoa(check.Containers), "check_rounds": strconv.Itoa(check.Rounds), "check_limit": check.Limit.String(),
		},
	)...)
}

// negative matches a number that looks like a flag.
var negative = regexp.MustCompile(`^-[0-9]`)

// plain puts a command line into the form that the parser takes: "help X" is
// "X --help", and a negative number behind a flag is its value, so that the error
// is that of the flag's limits.
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
