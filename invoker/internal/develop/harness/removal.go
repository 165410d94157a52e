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

// RemovesSlowly reports whether the only error of an invoker's end is a slow daemon:
// the invoker waits half a minute for the removal of its containers, and leaves the
// rest to the next invoker with its name.
func RemovesSlowly(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "remove own containers")
}

// AwaitRemoval does the work of that next invoker: it removes the remaining containers
// and blocks until left returns none.
func AwaitRemoval(t testing.TB, left func() []string, remove func(id string)) {
	t.Helper()
	peertest.Until(t, "containers are removed", func() string {
		all := left()
		if len(all) == 0 {
			return ""
		}
		for _, id := range all {
			remove(id)
		}
		return fmt.Sprint(all)
	})
}

// RemoveFromDocker removes a container. It is a no-op if the daemon is already removing it.
func RemoveFromDocker(id string) { _ = exec.Command("docker", "rm", "-f", id).Run() }
