package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// With the file log store what an action prints is in its record, and in a file
// beside it, a line each, with the activation after them.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	p := start(t, ownParts(t), setup{env: map[string]string{
		"CONFIG_whisk_spi_LogStoreProvider": "org.apache.openwhisk.core.containerpool.logging.DockerToActivationFileLogStoreProvider",
		"CONFIG_whisk_gpu_log_directory":    dir,
	}})
	p.create("prints", "python:3", "import sys\ndef main(p):\n    print('first <&>')\n    print('second', file=sys.stderr)\n    return {}\n", nil)
	out := p.call("prints", map[string]any{"word": "not-to-be-seen"})
	if logged := out.logged(); len(logged) != 2 {
		t.Fatalf("the record has %q", logged)
	}
	var lines []string
	peertest.Until(t, "lines in a file", func() string {
		files, err := filepath.Glob(filepath.Join(dir, "userlogs-*.log"))
		if err != nil || len(files) != 1 {
			return "not one file"
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			return err.Error()
		}
		lines = nil
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "whisk.system") { // the controller's tests of its invokers
				lines = append(lines, line)
			}
		}
		if len(lines) != 3 {
			return "not three lines: " + string(text)
		}
		return ""
	})
	texts := map[string]string{}
	for i, line := range lines {
		if strings.Contains(line, "not-to-be-seen") {
			t.Errorf("a parameter is in the file: %s", line)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got["activationId"] != string(out.record.ActivationID) || got["namespace"] != "guest" || got["namespaceId"] == "" || got["namespaceId"] == nil {
			t.Errorf("line %s", line)
		}
		if i == 2 {
			if got["subject"] != out.record.Subject || !reflect.DeepEqual(got["logs"], []any{}) {
				t.Errorf("activation %s", line)
			}
			continue
		}
		if got["action"] != "guest/prints" || got["time"] == "" {
			t.Errorf("line %s", line)
		}
		texts[got["stream"].(string)] = got["log"].(string)
	}
	if texts["stdout"] != "first <&>\n" || texts["stderr"] != "second\n" {
		t.Errorf("texts are %q", texts)
	}
}
