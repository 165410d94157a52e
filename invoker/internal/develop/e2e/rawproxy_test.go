package e2e

import (
	"fmt"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"
)

// TestRawProxies runs images whose proxy speaks HTTP badly or not at all. They
// need Docker: a process is always started with a proxy of ours.
func TestRawProxies(t *testing.T) {
	p := start(t, realParts(t), setup{memory: memoryForAll})
	image := actorImage(t, p.parts)
	for i, c := range []struct {
		code, do string
		limit    int
		status   int
		text     string
	}{
		{"", "hang", brief, 2, "The action exceeded its time limits of 5000 milliseconds."},
		{"", "late", brief, 2, "The action exceeded its time limits of 5000 milliseconds."},
		{"", "exit", minutes, 2, textExited},
		{"", "unwell", minutes, 2, textExited},
		{"", "text", minutes, 2, textInvalid + ": no JSON at all"},
		{"", "scalar", minutes, 2, textInvalid + ": 42"},
		{"", "empty", minutes, 2, textInvalid + "."},
		{"", "error", minutes, 2, "as asked"},
		{"", "odd", minutes, 2, textInvalid + `: {"nothing":1}`},
		{"", "chunked", minutes, 2, textExited},
		{"", "long", minutes, 1, textTooLong},
		{"", "close", minutes, 2, textExited},
		{"", "reset", minutes, 2, textExited},
		{"", "noise", minutes, 2, textExited},
		{"", "half", minutes, 2, textExited},
		{"", "endless-head", minutes, 2, textExited},
		{"init:hang", "", brief, 2, "The action exceeded its time limits of 5000 milliseconds during initialization."},
		{"init:exit", "", minutes, 2, textNotBegun},
		{"init:unwell", "", minutes, 2, textNotBegun},
		{"init:close", "", minutes, 2, textNotBegun},
		{"init:noise", "", minutes, 2, textNotBegun},
		{"init:half", "", minutes, 2, textNotBegun},
		{"init:error", "", minutes, 2, "as asked"},
		{"init:odd", "", minutes, 2, `The action failed during initialization: {"nothing":1}`},
	} {
		t.Run(c.code+c.do, func(t *testing.T) {
			t.Parallel()
			p, name := p.at(t), fmt.Sprint("raw", i)
			exec := &whisk.Exec{Kind: "blackbox", Image: image}
			if c.code != "" {
				exec.Code = &c.code
			}
			p.insert(&whisk.Action{Name: name, Exec: exec, Limits: limits(c.limit, 128, 0)})
			p.call(name, map[string]any{"do": c.do}).want(t, c.status, c.text)
		})
	}
	for i, c := range []struct{ name, image, text string }{
		{"no program", p.parts.variant(t, image, "nothing", `CMD ["/nothing"]`), "executable file not found in image "},
		{"ends at once", p.parts.variant(t, image, "exit", `CMD ["/exec","exit"]`), textNotBegun},
		{"no image", "gpuwhisk-e2e.invalid/nothing:1", "Failed to pull container image 'gpuwhisk-e2e.invalid/nothing:1'."},
		{"no registry", "gpuwhisk-e2e.invalid/nothing", "Failed to pull container image 'gpuwhisk-e2e.invalid/nothing'."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, name := p.at(t), fmt.Sprint("image", i)
			p.insert(&whisk.Action{Name: name, Exec: &whisk.Exec{Kind: "blackbox", Image: c.image}, Limits: limits(minutes, 128, 0)})
			p.call(name, nil).want(t, 2, c.text)
		})
	}
}
