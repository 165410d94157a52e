package runtimes_test

import (
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

var noop = map[runtimes.Family]string{
	runtimes.Python: "def main(p):\n    return {}\n",
	runtimes.NodeJS: "function main(p){ return {}; }",
	runtimes.Native: "#!/bin/sh\necho '{}'\n",
}

// BenchmarkNoop measures a run of an action that does nothing, with the invoker's own
// client: the cost of a proxy.
func BenchmarkNoop(b *testing.B) {
	for _, family := range []runtimes.Family{runtimes.Python, runtimes.NodeJS, runtimes.Native} {
		b.Run(string(family), func(b *testing.B) {
			p := start(b, family)
			p.load(noop[family])
			c := proxy.New(p.addr, 1)
			defer c.Close()
			limit := proxy.Limit{Max: 1 << 20, Truncation: 1 << 20}
			body := []byte(runBody(`{"a":1}`))
			for b.Loop() {
				if x := c.Run(b.Context(), body, time.Minute, limit); !x.OK() {
					b.Fatal(x.Failure, x.Err)
				}
			}
		})
	}
}

// BenchmarkStart measures the time from the start of a proxy's process to its answer to
// /init.
func BenchmarkStart(b *testing.B) {
	for _, family := range []runtimes.Family{runtimes.Python, runtimes.NodeJS, runtimes.Native} {
		b.Run(string(family), func(b *testing.B) {
			findPrograms()
			for b.Loop() {
				p := start(b, family)
				p.load(noop[family])
				p.cmd.Process.Kill()
			}
		})
	}
}
