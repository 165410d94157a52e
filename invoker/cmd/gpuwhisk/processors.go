package main

import (
	"runtime"
	"slices"
	"strings"
)

// maxProcessors is more than an invoker needs: on one it completes a thousand
// activations a second.
const maxProcessors = 4

// shareProcessors bounds the processors that the invoker computes on, unless
// the environment does (GOMAXPROCS). An invoker mostly waits, and what it waits
// for runs beside it. With all processors at hand the Go runtime wakes a thread
// on another one for each thing that happens, to see whether there is more to
// do; on two that was an eighth of the invoker's whole work.
func shareProcessors(environ []string) {
	if slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "GOMAXPROCS=") }) {
		return
	}
	runtime.GOMAXPROCS(processors(runtime.GOMAXPROCS(0)))
}

// processors is the invoker's share of those that the machine, or the cgroup,
// lets it have.
func processors(all int) int { return min(max(all/2, 1), maxProcessors) }
