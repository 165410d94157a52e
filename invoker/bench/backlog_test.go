package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/twmb/franz-go/pkg/kgo"
)

// backlogSize is how many activations wait; GPUWHISK_BACKLOG says another
// number.
func backlogSize(b *testing.B) int {
	n, err := strconv.Atoi(os.Getenv("GPUWHISK_BACKLOG"))
	if err != nil || n < 1 {
		return 100_000
	}
	b.Logf("%d activations wait, by GPUWHISK_BACKLOG", n)
	return n
}

// BenchmarkBacklog has 100,000 activations of 100 GPU functions wait for a
// simulated device whose runs do not end, in an invoker that is a process of its
// own. It reports what memory they take there: live, and resident after unused
// memory was given back (swept) and before, which has the garbage of the pulling.
// And it reports how long a CPU action takes beside them against one without, in
// turns with an invoker that has no backlog. Goals: at most 40 MB live, and a
// ratio of 1.1.
func BenchmarkBacklog(b *testing.B) {
	for b.Loop() {
		r := newRig(b)
		busy, idle := r.process("0"), r.process("1")
		r.warm(busy, idle)
		live := busy.sweep()
		before := rss(b, busy.pid)
		n := backlogSize(b)
		began := time.Now()
		r.send("invoker0", n)
		r.parked(busy, n)
		b.ReportMetric(float64(n)/time.Since(began).Seconds(), "pulled/s")
		b.ReportMetric(rss(b, busy.pid)-before, "added-MB")
		b.ReportMetric(busy.sweep()-live, "added-live-MB")
		b.ReportMetric(rss(b, busy.pid)-before, "added-swept-MB")
		r.beside(busy, idle)
	}
}

// invokerProcess is an invoker that holds nothing but itself.
type invokerProcess struct {
	b     *testing.B
	topic string
	pid   int
	door  string
	said  *bufio.Scanner
}

// process starts an invoker with a simulated device.
func (r *rig) process(id string) *invokerProcess {
	r.b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(r.environment(), asInvoker+"="+r.action, invokerID+"="+id, "PATH="+os.Getenv("PATH"),
		"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_shim_library=none")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.b.Fatal(err)
	}
	r.b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &invokerProcess{b: r.b, topic: "invoker" + id, pid: cmd.Process.Pid, said: bufio.NewScanner(out)}
	p.said.Scan()
	_, port, err := net.SplitHostPort(p.said.Text())
	if err != nil {
		r.b.Fatal(err)
	}
	p.door = "127.0.0.1:" + port
	return p
}

// sweep has the process give memory back that it does not use, and tells how many
// MB it does.
func (p *invokerProcess) sweep() float64 {
	if err := syscall.Kill(p.pid, syscall.SIGUSR1); err != nil {
		p.b.Fatal(err)
	}
	p.said.Scan()
	bytes, err := strconv.ParseFloat(p.said.Text(), 64)
	if err != nil {
		p.b.Fatal(err)
	}
	return bytes / (1 << 20)
}

// warm runs a CPU action often enough that both invokers are warm.
func (r *rig) warm(all ...*invokerProcess) {
	for range 3000 {
		for _, p := range all {
			r.invoke(p.topic, "a1")
		}
	}
}

// beside takes turns between an invoker with a backlog and one without.
func (r *rig) beside(busy, idle *invokerProcess) {
	var with, without []time.Duration
	for range 3000 {
		without = append(without, r.invoke(idle.topic, "a1"))
		with = append(with, r.invoke(busy.topic, "a1"))
	}
	us := func(d time.Duration) float64 { return float64(d) / 1e3 }
	for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9} {
		r.b.ReportMetric(us(quantile(with, q)), "cpu-"+name+"-us")
		r.b.ReportMetric(float64(quantile(with, q))/float64(quantile(without, q)), "cpu-"+name+"-ratio")
	}
}

// send puts activations of a hundred functions on a topic, whose runs never end.
func (r *rig) send(topic string, n int) {
	sent := make(chan error, n)
	for i := range n {
		m := message(fmt.Sprint(hangs, i%100), activation.ID(fmt.Sprintf("%031xf", i)))
		r.client.Produce(r.b.Context(), &kgo.Record{Topic: topic, Value: m.Encode()}, func(_ *kgo.Record, err error) { sent <- err })
	}
	for range n {
		if err := <-sent; err != nil {
			r.b.Fatal(err)
		}
	}
}

// parked waits until an invoker has taken n activations, all but a few of which
// it has parked.
func (r *rig) parked(p *invokerProcess, n int) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		var s struct {
			Work struct {
				Backlog struct{ InMemory, Parked int }
			}
		}
		if err := json.Unmarshal(p.ask("/status"), &s); err != nil {
			r.b.Fatal(err)
		}
		if at := s.Work.Backlog; at.Parked+at.InMemory == n && at.InMemory < 2000 {
			return
		}
	}
}

func (p *invokerProcess) ask(path string) []byte {
	resp, err := http.Get("http://invoker.user:invoker.pass@" + p.door + path)
	if err != nil {
		p.b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		p.b.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return body
}
