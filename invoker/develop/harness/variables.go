package harness

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Number is that which a variable of the environment sets, from 1.
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

// ManyAtOnce has more tests run beside each other than there are processors: most
// of what tests of whole invokers do is to wait. Flags are parsed before.
func ManyAtOnce() { _ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) }
