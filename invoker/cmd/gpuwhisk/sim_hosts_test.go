package main

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestSimHostsNamesTheFlag: flags with which nothing can be measured are refused before
// a run.
func TestSimHostsNamesTheFlag(t *testing.T) {
	for _, flags := range []string{
		"--hosts=0", "--hosts=65", "--count=3", "--seeds=0", "--seeds=-1", "--containers=0", "--load=0",
	} {
		_, err := parseSim(t, "hosts", flags)
		name, _, _ := strings.Cut(flags, "=")
		check.ErrorContains(t, err, name+" ", "%s", flags)
	}
}
