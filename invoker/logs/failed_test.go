package logs

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// The log of an action that broke ends in the line that says so, behind the
// one that says what is missing of the log.
func TestBrokenActionIsSaidLast(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(c *Collector)
		want    []string
	}{
		"whole": {func(*Collector) {}, []string{brokenText}},
		"lost":  {(*Collector).Lose, []string{failedText, brokenText}},
		"cut": {func(c *Collector) {
			c.Add([]byte(`{"log":"` + strings.Repeat("x", 200) + `\n","stream":"stdout","time":"2026-01-02T03:04:05.6Z"}`))
		}, []string{truncatedText(100), brokenText}},
	} {
		collector := NewCollector(container.LogRequest{Failed: true, LimitBytes: 100})
		c.prepare(collector)
		got := collector.Result(time.Unix(0, 0)).Lines
		ok := len(got) == len(c.want)
		for i := 0; ok && i < len(got); i++ {
			ok = strings.HasSuffix(got[i], "stderr: "+c.want[i])
		}
		if !ok {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
