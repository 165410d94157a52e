package kafka

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain fails the run if a goroutine of this package outlives the tests. Each goroutine has
// an owner, and the owner's Close waits for it.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := leaked(); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// leaked waits for goroutines that are on their way out.
func leaked() string {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var left string
	for late := time.Now().Add(testTimeout); time.Now().Before(late); <-tick.C {
		if left = ours(); left == "" {
			return ""
		}
	}
	return left
}

func ours() string {
	buf := make([]byte, 1<<20)
	var left []string
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "activation/kafka.") && !strings.Contains(stack, "TestMain") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
