package sim

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestJSONIsDocumented: programs read the output of --json, so every name in it is documented,
// and every documented name exists.
func TestJSONIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/simulator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## Output for programs\n")
	if !found {
		t.Fatal("docs/simulator.md has no section on the output")
	}
	printed := map[string]bool{}
	for _, v := range []any{Result{}, Summary{}, Finding{}, GridCell{}} {
		jsonNames(reflect.TypeOf(v), printed)
	}
	for name := range printed {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/simulator.md does not name %q", name)
		}
	}
	words := strings.Split(section, "`")
	for i := 1; i < len(words); i += 2 {
		w := words[i]
		if !printed[w] && !strings.HasPrefix(w, "--") && !strings.HasPrefix(w, "sim ") {
			t.Errorf("docs/simulator.md names %q, which is not printed", w)
		}
	}
}

// jsonNames gathers the names that a type has in JSON.
func jsonNames(t reflect.Type, into map[string]bool) {
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer:
		jsonNames(t.Elem(), into)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" || !f.Anonymous { // the fields of an embedded one are the struct's own
				into[name] = true
			}
			jsonNames(t.Field(i).Type, into)
		}
	}
}
