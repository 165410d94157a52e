package harness

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// RemovesSlowly reports whether an invoker ended with nothing but this: it gives a
// daemon half a minute to remove its containers, and leaves the rest to the next one
// with its name.
func RemovesSlowly(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "remove own containers")
}

// AwaitRemoval takes the place of that next invoker: it removes what is left, and
// waits until nothing is.
func AwaitRemoval(t testing.TB, left func() []string) {
	t.Helper()
	peertest.Until(t, "containers are removed", func() string {
		all := left()
		if len(all) == 0 {
			return ""
		}
		_ = exec.Command("docker", append([]string{"rm", "-f"}, all...)...).Run() // some may be on their way
		return fmt.Sprint(all)
	})
}
