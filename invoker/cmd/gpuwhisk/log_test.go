package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

func TestLogLinesAreTheOriginals(t *testing.T) {
	var out strings.Builder
	log := newLogger(&out, config.Logs{Level: "INFO", Format: "openwhisk"})
	log.Debug("not this")
	log.With("topic", "invoker0").Info("ready\nnow", "took", 1500*time.Microsecond, "why", "a b")
	log.Warn("ack not delivered", "transid", "abc")
	log.Info("blocked", "transid", "abc", "class", "InvokerReactive")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		`^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\] \[INFO\] \[#tid_sid_invoker\] \[Invoker\] ready\\nnow topic=invoker0 took=1.5ms why="a b"$`,
		`^\[.*Z\] \[WARN\] \[#tid_abc\] \[Invoker\] ack not delivered$`,
		`^\[.*Z\] \[INFO\] \[#tid_abc\] \[InvokerReactive\] blocked$`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for i, w := range want {
		if !regexp.MustCompile(w).MatchString(lines[i]) {
			t.Errorf("line %q does not match %s", lines[i], w)
		}
	}
}

func TestLogFormats(t *testing.T) {
	for format, want := range map[string]string{"json": `"msg":"x"`, "text": "msg=x", "openwhisk": "[ERROR]"} {
		var out strings.Builder
		newLogger(&out, config.Logs{Level: "ERROR", Format: format}).Error("x")
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %q", format, out.String())
		}
	}
}
