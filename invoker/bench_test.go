package invoker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
	"github.com/gpuwhisk/gpuwhisk/sched"
)

// BenchmarkFunctions measures the cost of a warm activation in the whole invoker, with fakes
// around it, for 10 and for 1,000 GPU functions. Each function has a container on one of eight
// devices. Chunks of both sizes alternate, so that a busy machine slows both equally. Goal: a
// ratio of at most 1.2 of wall time and of processor time. The latter is meaningful on a busy
// machine, too.
func BenchmarkFunctions(b *testing.B) {
	for _, policy := range []string{"mqfq-sticky", "sticky-plus"} {
		b.Run(policy, func(b *testing.B) {
			sizes := []int{10, 1000}
			crowds := make([]*crowd, len(sizes))
			for i, n := range sizes {
				crowds[i] = newCrowd(b, policy, n)
			}
			took, cpu := make([][]float64, len(sizes)), make([][]float64, len(sizes))
			for b.Loop() {
				for i, c := range crowds {
					began := processor(b)
					took[i] = append(took[i], c.chunk())
					cpu[i] = append(cpu[i], float64((processor(b)-began).Microseconds())/chunkSize)
				}
			}
			for i, n := range sizes {
				b.ReportMetric(median(took[i]), fmt.Sprintf("us@%d", n))
				b.ReportMetric(median(cpu[i]), fmt.Sprintf("cpu-us@%d", n))
			}
			b.ReportMetric(median(took[1])/median(took[0]), "ratio")
			b.ReportMetric(median(cpu[1])/median(cpu[0]), "cpu-ratio")
		})
	}
}

// processor is the processor time that this process took so far.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	check.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// crowd is an invoker whose GPU functions are all warm.
type crowd struct {
	*fixture
	names []string
	next  int
	ended chan struct{}
}

func newCrowd(b *testing.B, policy string, functions int) *crowd {
	c := &crowd{fixture: newFixture(b), ended: make(chan struct{}, chunkSize)}
	for i := range functions {
		c.names = append(c.names, fmt.Sprint("f", i))
		c.action(c.names[i], annotate(`{"memory":"64 MB"}`))
	}
	s := c.gpuSettings(8)
	cfg, _ := sched.Defaults(policy)
	s.GPU.Policy, s.GPU.Sched, s.GPU.Pool, s.GPU.Context = policy, cfg, gpu.PoolConfig{Size: 256}, 1<<20
	s.GPU.BacklogBytes, s.Pool.MemoryMB, s.Events = 1<<30, 1<<20, false
	for i := range s.GPU.Devices {
		s.GPU.Devices[i].MemoryBytes = 80 << 30
	}
	_, stop := c.start(s, func(iv *Invoker) { iv.completer.records, iv.completer.outbox = c, c })
	b.Cleanup(stop)
	c.fill()
	for range 2 * functions / chunkSize {
		c.chunk()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	check.Equal(check.Must(b), c.made, functions)
	return c
}

// fill has each function run once, on all devices at the same time.
func (c *crowd) fill() {
	var gate sync.WaitGroup
	c.setRun(func(int, []byte) proxy.Exchange {
		gate.Done()
		gate.Wait()
		return answer(200, `{"ok":true}`)
	})
	for at := 0; at < len(c.names); {
		n := min(16, len(c.names)-at)
		gate.Add(n)
		for range n {
			c.send()
			at++
		}
		for range n {
			<-c.ended
		}
	}
	c.setRun(func(int, []byte) proxy.Exchange { return answer(200, `{"ok":true}`) })
}

// chunkSize is how many activations are timed together, one after the other.
const chunkSize = 10

// chunk is the mean time of an activation in microseconds.
func (c *crowd) chunk() float64 {
	began := time.Now()
	for range chunkSize {
		c.send()
		<-c.ended
	}
	return float64(time.Since(began).Microseconds()) / chunkSize
}

func (c *crowd) send() {
	name := c.names[c.next%len(c.names)]
	c.next++
	c.feed <- Delivery{Message: newMessage(name, int64(c.next)), Offset: int64(c.next), Done: func() { c.ended <- struct{}{} }}
}

// Messages from the invoker are discarded, because a test's collection would grow.

func (c *crowd) Put(_ context.Context, _ string, _ []byte, stored func(int, error)) error {
	stored(1, nil)
	return nil
}

func (c *crowd) Ack(_ context.Context, _ string, _ activation.Ack, sent func(error)) error {
	sent(nil)
	return nil
}
