package bench

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
)

// otherBuild, when set, is another build, such as one of an earlier commit: its invoker is
// measured in turns with ours. For embedded parts it is a build of this test program, and
// among real parts a gpuwhisk, or a script that starts one without the settings that it
// does not have.
const otherBuild = "GPUWHISK_BENCH_OTHER"

// builds are the programs that are measured in turns: this one, and the other.
func builds() []string {
	programs := []string{os.Args[0]}
	if other := os.Getenv(otherBuild); other != "" {
		programs = append(programs, other)
	}
	return programs
}

// BenchmarkHallway measures the processor time and the context switches of an activation
// in an invoker in its own process, with 1, 16 and 64 in flight, for actions with and
// without logs. Another build (otherBuild) is measured in the same turns.
//
//   - embedded: 16 containers that are servers of this process. Activations arrive at the
//     rate that is usual with real parts, because an invoker that is always busy wakes
//     fewer threads and would seem cheaper. The runs of "prints" write a log whose end
//     arrives together with the answer. The floor, which only passes on activations of
//     "noop", is measured in the same turns.
//   - real: Apache Kafka, a pouchdb-server and Docker.
func BenchmarkHallway(b *testing.B) {
	b.Run("embedded", embeddedHallway)
	b.Run("real", hallwayAmongRealParts)
}

// inFlight runs a benchmark for each action and each number of activations in flight.
func inFlight(b *testing.B, actions []string, run func(b *testing.B, action string, flight int)) {
	for _, action := range actions {
		for _, flight := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s-%d", action, flight), func(b *testing.B) { run(b, action, flight) })
		}
	}
}

func embeddedHallway(b *testing.B) {
	r := newController(b)
	programs := builds()
	for i := range programs {
		r.addresses(strconv.Itoa(firstSide+i), containers)
	}
	environ := []string{withDatabase + "=" + r.dbURL, withLogs + "=" + r.logs,
		fmt.Sprintf("CONFIG_whisk_containerPool_userMemory=%dm", containers*128), processors()}
	inFlight(b, []string{"noop", "prints"}, func(b *testing.B, action string, flight int) {
		name, count := waits+"25"+action, 1000
		if flight == 1 {
			name, count = waits+"2"+action, 300
		}
		r.hallway(b, programs, environ, name, flight, count)
	})
}

// containers is how many the hallway's invokers have.
const containers = 16

// processors has an invoker compute on as many as the program does.
func processors() string {
	return fmt.Sprintf("GOMAXPROCS=%d", min(max(runtime.GOMAXPROCS(0)/2, 1), 4))
}

// firstSide is the id of the first invoker that runs beside others.
const firstSide = 2

// addresses makes the addresses of an invoker's containers.
func (r *controller) addresses(invoker string, containers int64) {
	_, port, _ := net.SplitHostPort(r.action)
	for n := range containers {
		ln, err := net.Listen("tcp", net.JoinHostPort(loopback(invoker, n+1), port))
		check.NoError(r.b, err)
		go func() { _ = r.actions.Serve(ln) }()
	}
}

// clear removes the logs of an invoker's containers.
func (r *controller) clear(invoker string) {
	files, _ := filepath.Glob(filepath.Join(r.logs, "127.1."+invoker+".*"))
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// hallway lets each program have its turns with so many runs of an action.
func (r *controller) hallway(b *testing.B, programs, environ []string, action string, flight, count int) {
	var sides []*invokerProcess
	begin := func(name, program, more string) {
		id := firstSide + len(sides)
		r.clear(strconv.Itoa(id))
		s := r.process(program, id, append(slices.Clip(environ), more)...)
		s.Name = name
		sides = append(sides, s)
		r.burstOf(action, s.topic, flight, count/4)
	}
	for i, program := range programs {
		begin([]string{"", "other-"}[i], program, "")
	}
	if !strings.HasSuffix(action, prints) {
		begin("floor-", os.Args[0], asFloor+"=invoker"+strconv.Itoa(firstSide+len(sides)))
	}
	var gauges []*gauge.Side
	for _, s := range sides {
		gauges = append(gauges, &s.Side)
	}
	gauge.Turns(b, gauges, count, func(i int) { r.burstOf(action, sides[i].topic, flight, count) })
	for _, s := range sides {
		s.stop()
	}
}
