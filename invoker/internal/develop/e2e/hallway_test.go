package e2e

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
)

// otherBuild, when set, is another gpuwhisk, such as one of an earlier commit,
// or a script that starts one without the settings that it does not have.
const otherBuild = "GPUWHISK_BENCH_OTHER"

// BenchmarkHallwayInDocker is BenchmarkHallway of package bench among real parts: the
// processor time and the context switches of an activation in the invoker, with 1, 16 and
// 64 in flight, for actions with and without logs. Another build (otherBuild) is an
// invoker of its own among the same parts, and is measured in turns.
func BenchmarkHallwayInDocker(b *testing.B) {
	r := newController(b)
	r.action("noop", "nodejs:20", noop, time.Minute, 0)
	r.action("logs", "nodejs:20", noop, time.Minute, 10)
	sides := []*controller{r}
	if other := os.Getenv(otherBuild); other != "" {
		sides = append(sides, r.beside(other))
	}
	for _, s := range sides {
		s.run()
	}
	for _, action := range []string{"noop", "logs"} {
		for _, flight := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s-%d", action, flight), func(b *testing.B) { hallway(b, sides, action, flight) })
		}
	}
	for _, s := range sides {
		s.stop(syscall.SIGINT)
	}
}

// hallway runs a number of activations on each side in turns. A turn ends when its last
// record is in the database.
func hallway(b *testing.B, sides []*controller, action string, flight int) {
	const calls = 500
	round := func(s *controller, calls int) {
		s.burst(action, flight, calls)
		all := 0
		for _, s := range sides {
			all += int(s.sent.Load())
		}
		s.written(all)
	}
	for _, s := range sides {
		round(s, 200) // containers come to be
	}
	gauges := []*gauge.Side{{}, {Name: "other-"}}[:len(sides)]
	for i, s := range sides {
		gauges[i].PID = s.invoker.Cmd.Process.Pid
	}
	gauge.Turns(b, gauges, calls, func(i int) { round(sides[i], calls) })
}
