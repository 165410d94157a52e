// Package licenses tests what packages and the image say of others' work.
package licenses

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestLicencesOfAllModules: the text that is shipped has a section for each module that
// the program is linked with, with a licence in it, and the notices that must be
// carried.
func TestLicencesOfAllModules(t *testing.T) {
	out, err := exec.Command("bash", "licenses.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range regexp.MustCompile(`(?m)^={80}\n`).Split(string(out), -1)[1:] {
		head, text, _ := strings.Cut(s, "\n")
		name, _, _ := strings.Cut(head, " ")
		sections[name] = text
	}
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "../cmd/gpuwhisk")
	list.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=1", "GOFLAGS=")
	modules, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range strings.Fields(string(modules)) {
		if len(sections[module]) < 100 && module != "github.com/couchbase/goprotostellar" {
			t.Errorf("no licence of %s: %q", module, sections[module])
		}
	}
	for name, want := range map[string]string{
		"github.com/apache/openwhisk-client-go": "--- NOTICE.txt\n\nApache OpenWhisk Client Go",
		"Go's":                                  "Copyright 2009 The Go Authors",
		"invoker/internal/operate/console/page/vendor/LICENSE": "Leon Sorokin",
	} {
		if !strings.Contains(sections[name], want) {
			t.Errorf("the section of %s has no %q", name, want)
		}
	}
}
