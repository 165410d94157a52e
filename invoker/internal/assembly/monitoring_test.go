package assembly

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

const monitoring = "../../../docs/monitoring"

// TestBoardsShowMetricsThatExist: the boards and alerts use only metrics that the invoker's
// sources register.
func TestBoardsShowMetricsThatExist(t *testing.T) {
	var sources strings.Builder
	for _, pattern := range []string{"*.go", "../../*.go"} {
		names, err := filepath.Glob(pattern)
		check.NoError(t, err)
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil && !strings.HasSuffix(name, "_test.go") {
				sources.Write(b)
			}
		}
	}
	asked := map[string]bool{}
	files, err := filepath.Glob(monitoring + "/*")
	check.NoError(t, err)
	check.AtLeast(check.Must(t), len(files), 6)
	for _, file := range files {
		b, err := os.ReadFile(file)
		check.NoError(t, err)
		if strings.HasSuffix(file, ".json") && !json.Valid(b) {
			t.Errorf("%s is no JSON", file)
		}
		for _, m := range regexp.MustCompile(`gpuwhisk_([a-z_]+)`).FindAllStringSubmatch(string(b), -1) {
			asked[strings.TrimSuffix(m[1], "_bucket")] = true
		}
	}
	if len(asked) < 20 {
		t.Errorf("only %d metrics are found: the test looks in the wrong place", len(asked))
	}
	for name := range asked {
		if !strings.Contains(sources.String(), `"`+name+`"`) {
			t.Errorf("gpuwhisk_%s is shown and never registered", name)
		}
	}
}

// TestAlerts has Prometheus' own tool test the rules.
func TestAlerts(t *testing.T) {
	program := os.Getenv("GPUWHISK_TEST_PROMTOOL")
	if program == "" {
		program = "promtool"
	}
	if _, err := exec.LookPath(program); err != nil {
		reason := "no promtool: on Debian, apt-get install prometheus"
		peertest.Missing(t, reason)
	}
	tool := exec.CommandContext(t.Context(), program, "test", "rules", "alerts_test.yml")
	tool.Dir = monitoring
	if out, err := tool.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
