package gpucheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// player carries out the plan of one step.
type player struct {
	*fixture
	*Result
	*numbers // of the trial under way
	ctx      context.Context

	mu       sync.Mutex          // guards the fields below, and the result while orders run at the same time
	programs map[string]*program // that have started
	broken   map[string]error    // why a program has not started
}

// play starts all programs of a step, because frameworks take long to load. Then it carries
// out the trials one after the other and ends the programs. A failed trial does not stop the
// others.
func (f *fixture) play(ctx context.Context, st step, r *Result) (err error) {
	y := &player{fixture: f, Result: r, ctx: ctx, programs: map[string]*program{}, broken: map[string]error{}}
	p, err := f.planned(st)
	if err != nil {
		return err
	}
	r.Tables, r.Remarks = p.Tables, p.Remarks
	var starting sync.WaitGroup
	for name, g := range p.Programs {
		starting.Go(func() {
			started, err := f.start(ctx, g)
			y.mu.Lock()
			defer y.mu.Unlock()
			y.programs[name], y.broken[name] = started, err
		})
	}
	starting.Wait() // an order to a program that did not start fails
	for _, t := range p.Trials {
		if failed := y.trial(t); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s%w", pick(t.Name == "", "", t.Name+": "), failed))
		}
		for _, name := range t.Ends {
			y.programs[name].end(endTime)
		}
	}
	for _, started := range y.programs {
		started.end(0)
	}
	for _, t := range r.Tables {
		t.Title = y.expand(t.Title)
	}
	if err == nil && len(r.Findings) == 0 && p.Silent != "" {
		return errSkip{p.Silent}
	}
	return err
}

// trial carries out the phases of a trial and judges it.
func (y *player) trial(t trial) error {
	y.numbers = &numbers{named: map[string][]float64{}}
	for _, ph := range t.Phases {
		began := time.Now()
		for range max(1, ph.Times) {
			if err := y.script(ph.Script); err != nil {
				return err
			}
		}
		y.add(ph.Label+".phase", float64(time.Since(began)))
	}
	for _, f := range t.Figures {
		if err := f.judge(y.numbers, y.Result); err != nil {
			return err
		}
	}
	y.add("met", pick(y.last("missed") > 0, 0.0, 1))
	for _, ph := range t.Phases {
		if ph.Row != nil {
			y.row("", ph.Row)
		}
	}
	y.Says = append(y.Says, y.said(t.Says)...)
	y.Remarks = append(y.Remarks, y.said(t.Remarks)...)
	return nil
}

func (y *player) said(all []sentence) (out []string) {
	for _, s := range all {
		if s.When == "" || y.last(s.When) > 0 {
			out = append(out, y.expand(s.Text))
		}
	}
	return out
}

// row adds a row to the table of a label.
func (y *player) row(label string, cells []string) {
	t := y.Tables[slices.IndexFunc(y.Tables, func(t *Table) bool { return t.Label == label })]
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = y.expand(cell)
	}
	t.Rows = append(t.Rows, row)
}

func (y *player) script(script string) error {
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var g errgroup.Group
		for orders := range strings.SplitSeq(line, "&") {
			g.Go(func() error {
				for order := range strings.SplitSeq(orders, ";") {
					if err := y.order(strings.Fields(y.expand(order))); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// order carries out "LABEL = PROGRAM VERB NUMBER..." and keeps the answer.
func (y *player) order(words []string) error {
	label := ""
	if len(words) > 2 && words[1] == "=" {
		label, words = words[0], words[2:]
	}
	if len(words) < 2 {
		return nil
	}
	p, verb := y.programs[words[0]], strings.Join(words[1:], " ")
	if p == nil {
		return cmp.Or(y.broken[words[0]], fmt.Errorf("the plan has no program %s", words[0]))
	}
	began := time.Now()
	a, err := y.call(p, words[1], words[2:])
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", p.name, verb, err)
	}
	for field, v := range a.numbers {
		y.add(label+"."+field, v)
	}
	y.add(label+".rows", float64(len(a.Rows)))
	y.add(label+".took", float64(took))
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, cells := range a.Rows {
		y.row(label, cells)
	}
	if a.Note != "" {
		y.Remarks = append(y.Remarks, fmt.Sprintf("%s: %s: %s.", p.name, verb, a.Note))
	}
	return nil
}

// call carries out a verb of the program itself, or one of these:
//
//	evict, prefetch [BYTES]  a move as the invoker orders it: moved, ns, speed; fewer bytes are an error
//	report                   bytes that the shim counts: counted; by NVML: listed and, of these, beside the
//	                         shim's; or unlisted: 1
//	limit BYTES              a limit of the container, which the shim has by the answer
//	room                     free memory of the card by cuMemGetInfo: free; by NVML: used
//	group                    memory in use by the control group of the check: used
func (y *player) call(p *program, verb string, args []string) (answer, error) {
	number := int64(0)
	if len(args) > 0 {
		number, _ = strconv.ParseInt(args[0], 10, 64) // a word is 0
	}
	switch verb {
	case "evict":
		done, err := p.container.Evict(y.ctx, y.count.Add(1))
		return moved(done, number, err)
	case "prefetch":
		done, err := p.container.Prefetch(y.ctx, y.count.Add(1), 0)
		return moved(done, number, err)
	case "limit":
		p.container.Limit(number, 0)
		return y.report(p)
	case "report":
		return y.report(p)
	case "room":
		a, err := p.run("info")
		if used := y.card().Memory.Used; err == nil && used >= 0 {
			a.numbers["used"] = float64(used)
		}
		return a, err
	case "group":
		used, err := y.nvml.CgroupUse(y.card().UUID, cgroup())
		return answer{numbers: map[string]float64{"used": float64(used)}}, err
	}
	return p.run(verb, args...)
}

// moved returns the answer to an order that moves memory. It returns an error if
// a process failed, if none answered, or if fewer than least bytes moved.
func moved(d shimctl.Done, least int64, err error) (answer, error) {
	switch {
	case err != nil:
		return answer{}, err
	case d.Status != shimctl.OK:
		return answer{}, fmt.Errorf("%s after %s, driver's answer %d", d.Status, size(d.Moved), d.Code)
	case d.Processes == 0:
		return answer{}, errors.New("no process answered")
	case d.Moved < least:
		return answer{}, fmt.Errorf("%s of %s moved", size(d.Moved), size(least))
	}
	bytes, ns := float64(d.Moved), float64(d.Took)
	return answer{numbers: map[string]float64{"moved": bytes, "ns": ns, "speed": share(bytes, ns)}}, nil
}

func (y *player) report(p *program) (answer, error) {
	a, plain := answer{numbers: map[string]float64{"unlisted": 1}}, int64(0)
	usage, err := p.container.Report(y.ctx)
	for _, u := range usage {
		a.numbers["counted"] += float64(u.Allocated)
		plain += u.Listed()
	}
	for _, listed := range y.card().Processes {
		if listed.PID == p.cmd.Process.Pid && listed.Bytes >= 0 {
			a.numbers = map[string]float64{"counted": a.numbers["counted"], "seen": 1, "listed": float64(listed.Bytes), "beside": float64(listed.Bytes - plain)}
		}
	}
	return a, err
}
