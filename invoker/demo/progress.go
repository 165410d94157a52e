package demo

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// progress is the one line that tells how the load is going.
type progress struct {
	p           printer
	policy      string
	load        time.Duration
	begin       time.Time
	made, ready atomic.Int64
	stop        chan struct{}
	stopped     chan struct{}
}

func (p printer) progress(policy string, load time.Duration) *progress {
	g := &progress{p: p, policy: policy, load: load, begin: time.Now(), stop: make(chan struct{}), stopped: make(chan struct{})}
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
	return fmt.Sprintf("%-11s %s %5.1f s  %d called, %d answered, %d open",
		g.policy, g.p.paint(cyan, bar(min(passed.Seconds()/g.load.Seconds(), 1), 16, '█', '░')), passed.Seconds(), made, ready, made-ready)
}

func (g *progress) end(took time.Duration) {
	close(g.stop)
	<-g.stopped
	if g.p.terminal {
		fmt.Fprint(g.p.w, "\r\x1b[K")
	}
	fmt.Fprintln(g.p.w, g.line(took))
}

// bar fills a part of some cells.
func bar(part float64, cells int, full, empty rune) string {
	n := int(part*float64(cells) + 0.5)
	return strings.Repeat(string(full), n) + strings.Repeat(string(empty), cells-n)
}
