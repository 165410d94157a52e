package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// boards are the queries that OpenWhisk's own Grafana boards ask of an invoker,
// by the title of their panel.
var boards = []query{
	{"Active Container Counts", `gauge_containerPool_activeCount_counter`},
	{"Prewarm Container Counts", `gauge_containerPool_prewarmCount_counter`},
	{"Expired Prewarms", `sum by (kind, memory) (increase(counter_containerPool_prewarmExpired_counter_total[5m]))`},
	{"Prewarm Coldstarts", `sum by (kind, memory) (increase(counter_containerPool_prewarmColdstart_counter_total[5m]))`},
	{"Warm container starts", `sum(increase(counter_invoker_containerStart_counter_total{containerState="warmed"}[5m])) by (containerState)`},
	{"Non-warm container starts", `sum(increase(counter_invoker_containerStart_counter_total{containerState!="warmed"}[5m])) by (containerState)`},
	{"the same with the boards' variables at All", `counter_invoker_containerStart_counter_total{containerState=~".*", namespace=~".*", action=~".*", initiator=~".*"}`},
	{"lag", `gauge_kafka_topic_counter{topic="invoker0"}`},
	{"batches", `histogram_database_batchSize_counter_sum / histogram_database_batchSize_counter_count > 0`},
	{"run time", `histogram_quantile(0.95, sum by (le) (histogram_invoker_activationRun_finish_seconds_bucket))`},
}

// prewarming is a manifest with a stem cell, whose figures two panels show.
const prewarming = `{"runtimes":{"nodejs":[{"kind":"nodejs:20","default":true,"image":{"name":"nodejs"},
"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],"python":[{"kind":"python:3","default":true,"image":{"name":"python"},
"attached":{"attachmentName":"codefile","attachmentType":"text/plain"},"stemCells":[{"initialCount":1,"memory":"128 MB"}]}]},"blackboxes":[]}`

// Each panel of the boards that an OpenWhisk deployment has finds data of this
// invoker in a real Prometheus.
func TestBoardsFindTheirData(t *testing.T) {
	program := peertest.Variable(t, "GPUWHISK_TEST_PROMETHEUS", "prometheus.sh")
	p := start(t, ownParts(t), setup{env: map[string]string{
		"METRICS_KAMON": "true", "METRICS_KAMON_TAGS": "true", "RUNTIMES_MANIFEST": prewarming,
	}})
	p.create("shown", "python:3", "def main(p):\n    return {}\n", nil)
	p.call("shown", nil)
	p.call("shown", nil)
	at := prometheus(t, program, strings.TrimPrefix(p.admin.URL, "http://"))
	findData(t, at, boards)
}

// findData waits until each of some queries has had data.
func findData(t *testing.T, at string, asked []query) {
	t.Helper()
	asked = slices.Clone(asked)
	peertest.Until(t, "panels without data", func() string {
		var why []string
		asked = slices.DeleteFunc(asked, func(q query) bool {
			reason := ask(at, q.text)
			if reason != "" {
				why = append(why, q.panel+": "+reason)
			}
			return reason == ""
		})
		return strings.Join(why, "\n")
	})
}

// ask returns the reason why a query has no data, empty when it has.
func ask(at, query string) string {
	res, err := http.Get(at + "/api/v1/query?query=" + url.QueryEscape(query))
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err.Error()
	}
	if answer.Status != "success" || len(answer.Data.Result) == 0 {
		return fmt.Sprintf("%s: status %q %s, %d results", query, answer.Status, answer.Error, len(answer.Data.Result))
	}
	return ""
}

// prometheus starts a Prometheus that scrapes a target each second, and returns its
// address.
func prometheus(t *testing.T, program, target string, more ...string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: invoker\n  static_configs:\n  - targets: [%q]\n", target)
	check.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	at := fmt.Sprint("127.0.0.1:", peertest.FreePort(t, 4000))
	out, err := os.Create(filepath.Join(dir, "log"))
	check.NoError(t, err)
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	cmd.Args = append(cmd.Args, more...)
	cmd.Stdout, cmd.Stderr = out, out
	check.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		out.Close()
		if output, err := os.ReadFile(out.Name()); err == nil && t.Failed() {
			t.Logf("the log of Prometheus:\n%s", output)
		}
	})
	return "http://" + at
}

// Each panel of our own boards finds data, too: of an invoker with a GPU, which
// is simulated, and whose functions move each other's memory out.
func TestOurBoardsFindTheirData(t *testing.T) {
	program := peertest.Variable(t, "GPUWHISK_TEST_PROMETHEUS", "prometheus.sh")
	// There is no metric for the utilization of a simulated device.
	measured := slices.DeleteFunc(queries(t), func(q query) bool { return strings.HasPrefix(q.text, "gpuwhisk_gpu_utilization{") })
	p := startGPU(t, 64, nil)
	p.create("beside", "python:3", "def main(p):\n    return {}\n", nil)
	p.deployGPU(true, "first", "second")
	target := strings.TrimPrefix(p.admin.URL, "http://")
	// With native histograms Prometheus keeps no buckets.
	both := []string{prometheus(t, program, target), prometheus(t, program, target, "--enable-feature=native-histograms")}
	for range 2 {
		p.call("beside", nil)
		p.gpuRun("first", block)
		p.gpuRun("second", block)
	}
	for _, at := range both {
		findData(t, at, measured)
	}
}

// query is the query of a panel.
type query struct{ panel, text string }

// queries returns the queries of the shipped boards, with Grafana's variables replaced.
func queries(t *testing.T) []query {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "docs", "monitoring", "*.json"))
	check.NoError(t, err)
	check.AtLeast(check.Must(t), len(files), 3, "boards %v", files)
	variables := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*")
	var all []query
	for _, file := range files {
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		check.NoError(t, json.Unmarshal(harness.Read(t, file), &board), "%s", file)
		before := len(all)
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				q := query{filepath.Base(file) + ", " + panel.Title, variables.Replace(target.Expr)}
				check.Lacks(check.Must(t), q.text, "$", "%s: a variable that this test does not know", q.panel)
				check.That(check.Must(t), q.text != "", "%s", q.panel)
				all = append(all, q)
			}
		}
		check.Greater(t, len(all), before, "%s: no panel asks for anything", file)
	}
	return all
}
