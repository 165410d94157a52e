package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestParseArgs(t *testing.T) {
	show := func(n *int) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	for _, tt := range []struct {
		args string // separated by |
		want string // id, uniqueName, displayedName, overwriteId; empty for an error
	}{
		{"", "- [] [] -"},
		{"--id|7", "7 [] [] -"},
		{"--id=7|--uniqueName=a=b", "7 [a=b] [] -"},
		{"--displayedName| x y |--uniqueName|n|--id|1|--overwriteId|2", "1 [n] [x y] 2"},
		{"--id|1|--id|2", "2 [] [] -"},
		{"--id| |--uniqueName|  ", "- [] [] -"},
		{"--id|1|--id| ", "- [] [] -"},
		{"--id|x", ""},
		{"--id|-1", ""},
		{"--id|99999999999", ""},
		{"--id", ""},
		{"7", ""},
		{"--name|x", ""},
		{"--overwriteId|1.5", ""},
	} {
		var args []string
		if tt.args != "" {
			args = strings.Split(tt.args, "|")
		}
		var id Identity
		err := parseArgs(args, &id)
		got := fmt.Sprintf("%s [%s] [%s] %s", show(id.ID), id.UniqueName, id.DisplayedName, show(id.OverwriteID))
		if tt.want == "" {
			check.That(check.Must(t), err != nil, "%q", tt.args)
			check.That(t, strings.HasPrefix(err.Error(), "Error processing command line arguments List("), "%q: %v", tt.args, err)
			continue
		}
		check.ErrorIs(t, err, nil, "%q", tt.args)
		check.Equal(t, got, tt.want, "%q", tt.args)
	}
}

func TestSystemProperties(t *testing.T) {
	for line, want := range map[string][]entry{
		"":                         nil,
		"-Xmx1g -jar x":            nil,
		"-Da=b -Dc=":               {{"a", "b"}, {"c", ""}},
		"-Da":                      {{"a", ""}},
		`-Da='x y' "-Db=x 'y'"`:    {{"a", "x y"}, {"b", "x 'y'"}},
		`-Da=x\ y -Db='x\y'`:       {{"a", "x y"}, {"b", `x\y`}},
		`-Da=" '' "`:               {{"a", " '' "}},
		"-Da=b=c\t-D=x\n-Dd=$HOME": {{"a", "b=c"}, {"d", "$HOME"}},
		`-Dk=' 'a,b' '`:            {{"k", " a,b "}},
		`-Da="x\"" -Db=\"\'\\`:     {{"a", `x"`}, {"b", `"'\`}},
		`-Da="x\y\\" -Db=c\`:       {{"a", `xy\`}, {"b", `c\`}},
		"-Da=\xff\f -D\u00a0=x":    {{"a", "\xff\f"}, {"\u00a0", "x"}},
	} {
		got, err := systemProperties(line)
		check.ErrorIs(t, err, nil, "%q", line)
		check.EqualSlices(t, got, want, "%q", line)
	}
	for _, line := range []string{`-Da='b`, `"`} {
		if _, err := systemProperties(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}
