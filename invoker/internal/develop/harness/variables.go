package harness

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Number returns the positive number in an environment variable, or otherwise if the
// variable is not set.
func Number(t testing.TB, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	check.NoError(t, err, "%s=%q", variable, text)
	check.AtLeast(check.Must(t), n, 1, "%s=%q", variable, text)
	return n
}

// ManyAtOnce raises the number of parallel tests above the number of processors,
// because tests of whole invokers mostly wait. Call it after flag.Parse.
func ManyAtOnce() { _ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) }
