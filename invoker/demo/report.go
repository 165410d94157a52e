package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
)

// printer writes for a person: with colours and a moving line on a terminal,
// plain text elsewhere.
type printer struct {
	w        io.Writer
	terminal bool
	colour   bool
}

const (
	bold  = "1"
	dim   = "2"
	red   = "31"
	green = "32"
	cyan  = "36"
)

func (p printer) paint(code, s string) string {
	if !p.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p printer) say(format string, args ...any) {
	fmt.Fprintf(p.w, format+"\n", args...)
}

// progress is the one line that tells how the load is going.
type progress struct {
	p           printer
	total       int
	load        time.Duration
	begin       time.Time
	made, ready atomic.Int64
	stop        chan struct{}
	stopped     chan struct{}
}

func (p printer) progress(total int, load time.Duration) *progress {
	g := &progress{p: p, total: total, load: load, begin: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
	go g.show()
	return g
}

func (g *progress) sent()     { g.made.Add(1) }
func (g *progress) answered() { g.ready.Add(1) }

func (g *progress) show() {
	defer close(g.stopped)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-tick.C:
			if g.p.terminal {
				fmt.Fprint(g.p.w, "\r\x1b[K"+g.line(time.Since(g.begin)))
			}
		}
	}
}

func (g *progress) line(passed time.Duration) string {
	made, ready := g.made.Load(), g.ready.Load()
	return fmt.Sprintf("load %s %4.1f s  %d called, %d answered, %d running",
		g.p.paint(cyan, bar(min(passed.Seconds()/g.load.Seconds(), 1), 20, '█', '░')), passed.Seconds(), made, ready, made-ready)
}

func (g *progress) end(took time.Duration) {
	close(g.stop)
	<-g.stopped
	if g.p.terminal {
		fmt.Fprint(g.p.w, "\r\x1b[K")
	}
	fmt.Fprintln(g.p.w, g.line(took)+"\n")
}

// bar fills a part of a width.
func bar(part float64, width int, full, empty rune) string {
	n := int(part*float64(width) + 0.5)
	return strings.Repeat(string(full), n) + strings.Repeat(string(empty), width-n)
}

// startKinds are the ways in which a run can begin, from best to worst. The
// first two columns of CPU actions are warm and cold.
func startKinds() []string { return []string{"gpu-warm", "host-warm", "cold", "busy-cold"} }

// line is what the table says of one function.
type line struct {
	name    string
	gpu     bool
	runs    int
	errors  int
	starts  map[string]int
	p50     time.Duration
	p99     time.Duration
	wait    float64 // mean, milliseconds
	service int64   // GPU milliseconds
	moved   traffic
}

func summarise(functions []Function, calls []call, records map[string]*activation.Record) []line {
	lines := make([]line, len(functions))
	latencies := make([][]time.Duration, len(functions))
	for i, f := range functions {
		lines[i] = line{name: f.Name, gpu: f.GPU != nil, starts: map[string]int{}}
	}
	for _, c := range calls {
		l := &lines[c.function]
		l.runs++
		if c.err != nil {
			l.errors++
		}
		latencies[c.function] = append(latencies[c.function], c.latency)
		if r := records[c.id]; r != nil {
			l.add(r)
		}
	}
	for i := range lines {
		slices.Sort(latencies[i])
		lines[i].p50, lines[i].p99 = percentile(latencies[i], 0.50), percentile(latencies[i], 0.99)
		if lines[i].runs > 0 {
			lines[i].wait /= float64(lines[i].runs)
		}
	}
	return lines
}

func (l *line) add(r *activation.Record) {
	if raw, ok := r.Annotations.Get("gpu"); ok {
		if g, err := decodeGPU(raw); err == nil {
			l.starts[g.Start]++
			l.wait += float64(g.QueueTime)
			l.service += g.GPUTime
			return
		}
	}
	kind := "warm"
	if _, cold := r.Annotations.Get("initTime"); cold {
		kind = "cold"
	}
	l.starts[kind]++
	if n, ok := r.Annotations.Number("waitTime"); ok {
		l.wait += float64(n)
	}
}

// table shows what happened to each function, and how the device was shared.
// moved is nil where no memory is really moved.
func (p printer) table(functions []Function, calls []call, records map[string]*activation.Record, moved map[string]traffic) {
	lines := summarise(functions, calls, records)
	var total int64
	for i, l := range lines {
		total += l.service
		lines[i].moved = moved[l.name]
	}
	head := fmt.Sprintf("%-10s %5s %6s  %8s %9s %5s %9s %8s %8s %9s",
		"function", "runs", "errors", "gpu-warm", "host-warm", "cold", "busy-cold", "p50 ms", "p99 ms", "queue ms")
	if moved != nil {
		head += fmt.Sprintf(" %7s %7s", "MB out", "MB in")
	}
	p.say("%s", p.paint(bold, head+"  share of GPU service (simulated)"))
	for _, l := range lines {
		p.say("%s", p.row(l, total, moved != nil))
	}
	p.say("%s", p.paint(dim, "queue: mean wait for a turn on the device; for CPU actions from the call to the start, and gpu-warm counts their warm runs"))
	if moved != nil {
		p.say("%s", p.paint(dim, "MB out, MB in: device memory that the shim moved to the host while a function was idle, and back before its run"))
	}
	p.say("")
}

func (p printer) row(l line, total int64, moved bool) string {
	share := ""
	if l.gpu && total > 0 {
		part := float64(l.service) / float64(total)
		share = fmt.Sprintf("%s %4.1f%%", p.paint(green, bar(part, 20, '█', '·')), 100*part)
	}
	errs := fmt.Sprintf("%6d", l.errors)
	if l.errors > 0 {
		errs = p.paint(red, errs)
	}
	cells := make([]any, 0, 4)
	for _, kind := range startKinds() {
		n := l.starts[kind]
		if !l.gpu && kind == "gpu-warm" {
			n = l.starts["warm"]
		}
		cells = append(cells, n)
	}
	row := fmt.Sprintf("%-10s %5d %s  ", l.name, l.runs, errs) +
		fmt.Sprintf("%8d %9d %5d %9d", cells...) +
		fmt.Sprintf(" %8.1f %8.1f %9.1f", ms(l.p50), ms(l.p99), l.wait)
	switch {
	case moved && l.gpu:
		row += fmt.Sprintf(" %7.0f %7.0f", l.moved.out/1e6, l.moved.in/1e6)
	case moved:
		row += fmt.Sprintf(" %7s %7s", "", "")
	}
	return row + "  " + share
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// record shows one activation of a GPU function whole, as wsk would: one that
// waited for the device, if there is one.
func (p printer) record(info standalone.Info, records map[string]*activation.Record) error {
	id := pick(records)
	if id == "" {
		return nil
	}
	req, err := http.NewRequest(http.MethodGet, info.APIHost+"/api/v1/namespaces/_/activations/"+id, nil)
	if err != nil {
		return fmt.Errorf("ask for activation: %w", err)
	}
	guest := standalone.Guest()
	req.SetBasicAuth(guest.UUID, guest.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask for activation: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read activation: %w", err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, body, "", "  "); err != nil {
		return fmt.Errorf("read activation: %w", err)
	}
	p.say("%s\n%s\n", p.paint(bold, "wsk activation get "+id), pretty.String())
	return nil
}

func pick(records map[string]*activation.Record) string {
	best, longest := "", int64(-1)
	for id, r := range records {
		raw, ok := r.Annotations.Get("gpu")
		if !ok {
			continue
		}
		g, err := decodeGPU(raw)
		if err == nil && (g.QueueTime > longest || g.QueueTime == longest && id < best) {
			best, longest = id, g.QueueTime
		}
	}
	return best
}

// check tells whether the three accounts agree.
func (p printer) check(calls []call, a *account) error {
	v := judge(calls, a)
	counts := fmt.Sprintf("%d invocations, %d acks in Kafka, %d records in the database", v.Invocations, v.Acks, v.Records)
	if v.ok() {
		p.say("%s %s: each one once", p.paint(green, "ok"), counts)
		return nil
	}
	p.say("%s %s", p.paint(red, "MISMATCH"), counts)
	p.say("refused %d; acks missing %d, doubled %d, of no call %d; records missing %d, of no call %d",
		v.Refused, v.Unacknowledged, v.Doubled, v.Alien, v.Unrecorded, v.Unasked)
	return ErrMismatch
}
