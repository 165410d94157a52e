package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// render shows a document as a list of paths and values.
func render(root hoconObject) string {
	var out []string
	root.flatten("", func(path string, v any) {
		form := "%s=%s"
		if _, list := v.([]string); list {
			form = "%s=%q"
		}
		out = append(out, fmt.Sprintf(form, path, v))
	})
	return strings.Join(out, ";")
}

func environmentOf(name string) (string, bool) {
	v, ok := map[string]string{"HOST": "db", "EMPTY": ""}[name]
	return v, ok
}

func TestHOCON(t *testing.T) {
	for doc, want := range map[string]string{
		"":                                   "",
		"{}":                                 "",
		"a = 1024 m":                         "a=1024 m",
		"a: 10 minutes # time\nb = 2 // two": "a=10 minutes;b=2",
		"a { b { c = x } }\na.b.d = y":       "a.b.c=x;a.b.d=y",
		"{ \"a\": { \"b\": [1, \"two\", 3.50] }, }": `a.b=["1" "two" "3.50"]`,
		"a = [\n 1\n 2 # two\n\n 3\n]":              `a=["1" "2" "3"]`,
		"a = []":                                    "a=[]",
		"a = 1\na = 2":                              "a=2",
		"a = 1\na { b = 2 }":                        "a.b=2",
		"a { b = 2 }\na = 1":                        "a=1",
		"a { b = 1 }\na = null":                     "",
		`a = "null"`:                                "a=null",
		`a = "x \"y\" \u00e9\n/ \/"`:                "a=x \"y\" é\n/ /",
		`a = """x "y" \n"""" b`:                     `a=x "y" \n" b`,
		`a = """x "y" \n""" `:                       `a=x "y" \n`,
		`"a.b" = 1`:                                 "a.b=1",
		`a."b c".d = 1`:                             "a.b c.d=1",
		"a b = 1":                                   "a b=1",
		"a = x   y  z":                              "a=x   y  z",
		`a = "x" y`:                                 "a=x y",
		"0 = x\n1.2 = y":                            "0=x;1.2=y",
		"a += 1\na += 2":                            `a=["1" "2"]`,
		"a += 1\na += 2\na += 3":                    `a=["1" "2" "3"]`,
		"a = x null":                                "a=x null",
		"a = [1]\na = ${a} [2]":                     `a=["1" "2"]`,
		"a = x\nb = ${a}y\nc = ${b} ${a}":           "a=x;b=xy;c=xy x",
		"a = ${b.c}\nb { c = 1 }":                   "a=1;b.c=1",
		"a = ${?nothing}":                           "",
		"a = 1\na = ${?nothing}":                    "a=1",
		"a = 1\na = ${?HOST}":                       "a=db",
		`a = ${HOST}":5984"`:                        "a=db:5984",
		"a = x${?EMPTY}y":                           "a=xy",
		"a { x = 1 }\nb = ${a} { y = 2 }":           "a.x=1;b.x=1;b.y=2",
		"a = ${b}\na { y = 2 }\nb { x = 1 }":        "a.x=1;a.y=2;b.x=1",
		"a { x = 1 }\na = ${?b}":                    "a.x=1",
		"include classpath(\"application.conf\")\na = 1":          "a=1",
		"include \"logging\"\ninclude required(classpath(\"x\"))": "",
		"a { include \"x\" }\nb = 1":                              "b=1",
		"include = 1\nincludes = 2\ninclude.x = 3":                "include.x=3;includes=2",
		"\ufeffa = 1\r\nb = 2\r\n":                                "a=1;b=2",
		"a = 1, b = 2, c = [x, y,],":                              `a=1;b=2;c=["x" "y"]`,
	} {
		root, err := parseHOCON(doc, environmentOf)
		if err != nil {
			t.Errorf("%q: %v, want %s", doc, err, want)
		} else if got := render(root); got != want {
			t.Errorf("%q is %s, want %s", doc, got, want)
		}
	}
}

func TestHOCONRefuses(t *testing.T) {
	for doc, want := range map[string]string{
		"a = 1\nb = ${HOST}:5984":       "line 2: unexpected ':'",
		"a = http://x":                  "line 1: unexpected ':'",
		"a = ${a}":                      "refers to itself",
		"a = ${b}\nb = ${a}":            "refers to itself",
		"a { b = ${a} }":                "refers to itself",
		"a = ${nothing}":                "${nothing} stands for nothing",
		"a = 1 [2]":                     "cannot be joined",
		"include file(\"/etc/x.conf\")": "include of a file or URL is not served",
		"a = {\nb = 1\n":                "line 3: expected a key, found the end",
		"a = [1":                        "expected , or ] in a list, found the end",
		"a = \n":                        "expected a value, found the end",
		"a":                             "expected = or : or {",
		"a..b = 1":                      "expected a key",
		"a = \"x\ny\"":                  "a quote is not closed",
		"a = \"\\x\"":                   "wrong escape",
		"include url(\"http://x\")":     "include of a file or URL is not served",
		"= 1":                           "expected a key",
		"{ a = 1":                       "unexpected the end",
		"a = \"x":                       "a quote is not closed",
		"a = \"\"\"x":                   "triple quote is not closed",
		"{ a = 1 } b":                   "behind the document",
		"a = ${b":                       "expected } at the end",
		"a = b=c":                       "unexpected '='",
		strings.Repeat("a{", 200):       "nested too deep",
		"a=" + strings.Repeat("[", 200): "nested too deep",
	} {
		_, err := parseHOCON(doc, environmentOf)
		check.ErrorContains(t, err, want, "%.40q", doc)
	}
}

// TestHOCONBombs: substitutions that double the document at each step end in an error
// before they exhaust the memory.
func TestHOCONBombs(t *testing.T) {
	texts, objects := "a0 = xxxxxxxxxx\n", "a0 = {x = 1}\n"
	for i := 1; i < 60; i++ {
		texts += fmt.Sprintf("a%d = ${a%d}${a%d}\n", i, i-1, i-1)
		objects += fmt.Sprintf("a%d = {x = ${a%d}, y = ${a%d}}\n", i, i-1, i-1)
	}
	for _, doc := range []string{texts, objects} {
		_, err := parseHOCON(doc, environmentOf)
		check.ErrorContains(t, err, "too large")
	}
}

func FuzzHOCON(f *testing.F) {
	for _, doc := range []string{
		"include classpath(\"application.conf\")\nwhisk { kafka { common { security-protocol = PLAINTEXT } } }",
		"a = [1, {b = \"c\\n\"}, \"\"\"d\"\"\"] # e\na += 2", "a = ${b} ${?c}\nb { x = 1 }", "a = 1\na = ${?HOST}", "a = ${a} x", "a {b=${a.c}}\na=${x}\na.c=1",
	} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		root, err := parseHOCON(doc, environmentOf)
		if err != nil {
			return
		}
		first := render(root)
		again, err := parseHOCON(doc, environmentOf)
		check.NoError(t, err, "read again")
		check.Equal(t, render(again), first)
	})
}
