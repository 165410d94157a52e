package bench

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/gauge"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// warmAmongRealParts measures a warm no-op on Node.js in Docker with Apache Kafka, one at a
// time: from the message's publishing to its acks, beside the floor of two Kafka hops.
func warmAmongRealParts(b *testing.B) {
	r := newRealController(b)
	r.noops()
	const runs = 1000
	for b.Loop() {
		first := r.run()
		b.ReportMetric(float64(first.Milliseconds()), "first-ping-ms")
		timer := time.NewTimer(10 * time.Second)
		before := r.cpu()
		<-timer.C
		b.ReportMetric(100*(r.cpu()-before).Seconds()/10, "rest-cpu-%")
		b.ReportMetric(r.rss(), "rest-MB")
		r.quantiles("two-hops", r.hops(runs), 0.95)
		_, done := r.series("noop", runs, "cpu-ms/op")
		r.quantiles("combined", done, 0.95)
		results, done := r.series("logs", runs, "logs-cpu-ms/op")
		r.quantiles("result", results, 0.95)
		r.quantiles("completion", done, 0.95)
		r.stop(syscall.SIGINT)
	}
}

// hallwayAmongRealParts is BenchmarkHallway with real parts. A turn ends when its last
// record is in the database.
func hallwayAmongRealParts(b *testing.B) {
	r := newRealController(b)
	r.noops()
	sides := []*realController{r}
	if other := os.Getenv(otherBuild); other != "" {
		sides = append(sides, r.beside(other))
	}
	gauges := []*gauge.Side{{}, {Name: "other-"}}[:len(sides)]
	for i, s := range sides {
		s.run()
		gauges[i].PID = s.invoker.Cmd.Process.Pid
	}
	inFlight(b, []string{"noop", "logs"}, func(b *testing.B, action string, flight int) {
		const calls = 500
		round := func(s *realController, calls int) {
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
		gauge.Turns(b, gauges, calls, func(i int) { round(sides[i], calls) })
	})
	for _, s := range sides {
		s.stop(syscall.SIGINT)
	}
}

// series runs an action, which is warm then, n times in turn, and reports the
// processor time of one.
func (r *realController) series(action string, n int, metric string) (results, completions []time.Duration) {
	for range 50 {
		r.once(action)
	}
	before := r.cpu()
	for range n {
		result, completion := r.once(action)
		results, completions = append(results, result), append(completions, completion)
	}
	r.b.ReportMetric(r.cpuMS(before)/float64(n), metric)
	return results, completions
}

// cpuMS is the invoker's processor time in milliseconds since it was so much.
func (r *realController) cpuMS(before time.Duration) float64 {
	return float64((r.cpu() - before).Microseconds()) / 1000
}

// hops returns the times of a message to a topic and back through another, which is
// twice one hop: Kafka's share of an activation's time.
func (r *realController) hops(n int) (all []time.Duration) {
	for range n {
		f := r.Send("completed0", func(id activation.ID) []byte {
			return activation.NewCompletion(activation.NewTransID("x", 0, false), id, false, activation.Instance{UniqueName: "x"}).Encode()
		})
		r.Await(f)
		all = append(all, 2*f.Completion.Sub(f.Sent))
	}
	return all
}

// BenchmarkThroughput keeps 16 and 64 no-ops in flight on at most 16
// containers; each has its record in the database at the end.
func BenchmarkThroughput(b *testing.B) {
	r := newRealController(b)
	r.noops()
	for b.Loop() {
		r.run()
		for _, c := range []struct {
			action string
			flight int
		}{{"noop", 16}, {"noop", 64}, {"logs", 16}, {"logs", 64}} {
			r.burst(c.action, c.flight, 200) // containers come to be
			const calls = 4000
			before, began := r.cpu(), time.Now()
			r.burst(c.action, c.flight, calls)
			acked := time.Since(began)
			r.written(int(r.sent.Load()))
			stored := time.Since(began)
			b.ReportMetric(calls/acked.Seconds(), fmt.Sprintf("%s-%d-acks/s", c.action, c.flight))
			b.ReportMetric(calls/stored.Seconds(), fmt.Sprintf("%s-%d-records/s", c.action, c.flight))
			b.ReportMetric(r.cpuMS(before)/calls, fmt.Sprintf("%s-%d-cpu-ms/op", c.action, c.flight))
			b.ReportMetric(r.rss(), fmt.Sprintf("%s-%d-MB", c.action, c.flight))
		}
		r.stop(syscall.SIGINT)
	}
}

// burst runs calls with so many in flight.
func (r *realController) burst(action string, flight, calls int) {
	harness.Burst(flight, calls, func() { r.once(action) })
}

// written waits until the database has so many records.
func (r *realController) written(all int) {
	q := couchdb.Query{DB: r.DB.Names().Activations, Design: "whisks.v2.1.0", View: "activations", Prefix: "guest"}
	peertest.Until(r.b, "records", func() string {
		n, err := r.DB.Count(context.Background(), q)
		if err != nil || n < all {
			return fmt.Sprintf("%d of %d, %v", n, all, err)
		}
		return ""
	})
}

// BenchmarkRestart ends the invoker and starts it again at once: from the
// start to the first ping, and to the ack of a message that waits. Then 50
// are in flight when it is killed: how many have neither ack nor record.
func BenchmarkRestart(b *testing.B) {
	r := newRealController(b)
	r.action("noop", noop, 10)
	r.action("slow", "const main = () => new Promise(done => setTimeout(() => done({}), 300))", 10)
	for b.Loop() {
		r.restarts("sigterm", syscall.SIGTERM)
		r.restarts("kill", syscall.SIGKILL)
	}
}

func (r *realController) restarts(name string, how syscall.Signal) {
	var acks, pings []time.Duration
	for range 5 {
		r.run()
		r.once("noop")
		ping, ack := r.again(how, "noop")
		pings, acks = append(pings, ping), append(acks, ack)
		r.stop(how)
	}
	r.quantiles(name+"-first-ping", pings, 1)
	r.quantiles(name+"-first-ack", acks, 1)
	r.b.ReportMetric(float64(r.lost(how)), name+"-lost-of-50")
}

// again ends the invoker and starts it at once, with a message that waits: from the
// start to the first ping, and to the ack.
func (r *realController) again(how syscall.Signal, action string) (ping, ack time.Duration) {
	r.stop(how)
	f := r.send(action)
	check.NoError(r.b, r.Flush(r.b.Context()))
	began := time.Now()
	ping = r.run()
	r.Await(f)
	return ping, f.Completion.Sub(began)
}

// leftovers is how many warm containers an invoker leaves, and how often.
const (
	leftovers = 50
	restarts  = 20
)

// BenchmarkLeftovers ends the invoker with 50 warm containers and starts it again
// at once: from the start to the ack of a message that waits, which one of the
// containers serves warm, and how many did not.
func BenchmarkLeftovers(b *testing.B) {
	r := newRealController(b, "CONFIG_whisk_containerPool_userMemory=16384m")
	for b.Loop() {
		r.run()
		for i := range leftovers {
			r.action(fmt.Sprint("left", i), noop, 10)
			r.once(fmt.Sprint("left", i))
		}
		before := r.Containers()
		r.inherits("sigterm-50", syscall.SIGTERM)
		r.inherits("kill-50", syscall.SIGKILL)
		b.ReportMetric(float64(gone(before, r.Containers())), "lost-containers")
		r.stop(syscall.SIGINT)
	}
}

func (r *realController) inherits(name string, how syscall.Signal) {
	var acks []time.Duration
	for n := range restarts {
		_, ack := r.again(how, fmt.Sprint("left", n%leftovers))
		acks = append(acks, ack)
	}
	r.quantiles(name+"-first-ack", acks, 0.95)
}

// gone counts the containers that are in the first list and not in the second.
func gone(before, after []string) (n int) {
	for _, id := range before {
		if !slices.Contains(after, id) {
			n++
		}
	}
	return n
}

// lost ends the invoker with 50 activations in flight, and counts those that never end.
func (r *realController) lost(how syscall.Signal) (n int) {
	r.run()
	r.once("slow")
	var flights []*harness.Flight
	for range 50 {
		flights = append(flights, r.send("slow"))
	}
	check.NoError(r.b, r.Flush(r.b.Context()))
	r.stop(how)
	r.run()
	late := time.After(time.Minute)
	for _, f := range flights {
		select {
		case <-f.Done():
		case <-late:
			n++
		}
	}
	r.stop(syscall.SIGINT)
	return n
}
