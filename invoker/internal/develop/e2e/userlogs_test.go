package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestLogFiles: with the file log store, the output of an action is in its record, and
// in a file beside it, one line each, followed by the activation.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	p := start(t, ownParts(t), setup{env: map[string]string{
		"CONFIG_whisk_spi_LogStoreProvider": "org.apache.openwhisk.core.containerpool.logging.DockerToActivationFileLogStoreProvider",
		"CONFIG_whisk_gpu_log_directory":    dir,
	}})
	p.create("prints", "python:3", "import sys\ndef main(p):\n    print('first <&>')\n    print('second', file=sys.stderr)\n    return {}\n", nil)
	out := p.call("prints", map[string]any{"word": "not-to-be-seen"})
	check.Equal(check.Must(t), len(out.logged()), 2, "the record has %q", out.logged())
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
		check.Lacks(t, line, "not-to-be-seen", "a parameter is in the file")
		var got map[string]any
		check.NoError(t, json.Unmarshal([]byte(line), &got), "%q", line)
		check.Equal(t, got["activationId"], any(string(out.record.ActivationID)), "line %s", line)
		check.Equal(t, got["namespace"], "guest", "line %s", line)
		check.That(t, got["namespaceId"] != "", "line %s", line)
		check.That(t, got["namespaceId"] != nil, "line %s", line)
		if i == 2 {
			check.Equal(t, got["subject"], any(out.record.Subject), "activation %s", line)
			check.DeepEqual(t, got["logs"], []any{}, "activation %s", line)
			continue
		}
		check.Equal(t, got["action"], "guest/prints", "line %s", line)
		check.That(t, got["time"] != "", "line %s", line)
		texts[got["stream"].(string)] = got["log"].(string)
	}
	check.Equal(t, texts["stdout"], "first <&>\n")
	check.Equal(t, texts["stderr"], "second\n")
}
