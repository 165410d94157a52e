// Package top prints the state of an invoker as a table, from the same snapshot as the
// console.
package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/explain"
)

// Snapshot is the printed part of the console's snapshot.
type Snapshot struct {
	At      int64
	Version string
	Status  struct {
		Instance string
		Healthy  bool
		Reasons  []string
		Uptime   string
		Kafka    struct{ Lag int64 }
		// Scheduling is nil in classic mode.
		Scheduling *struct {
			Pulled    int64
			Fetching  int
			Slots     struct{ Pulled, WaitingCreations int }
			Creations map[string]int // by outcome
		}
		Work *struct {
			InFlight, Capacity int
			Policy             string
			Devices            []Device
			Flows              []Flow
			Containers         []struct{ State string }
		}
	}
	Functions []explain.Function
	Counters  map[string]float64
}

// Device is one GPU.
type Device struct {
	Device      string
	Simulated   bool
	Tokens      int
	InFlight    int
	Containers  int
	Lost        string
	Utilization *float64
	Memory      int64 `json:"memoryBytes"`
	Used        int64 `json:"usedBytes"`
}

// Flow is one function's queue.
type Flow struct {
	Flow, State      string
	Queued, InFlight int
	LeadMs           int64
}

// Row is one function: its queue, and statistics of its runs in the last minutes.
type Row struct {
	Name, State              string
	Queued, Running          int
	Lead                     time.Duration
	Calls, Failed            int
	WaitP50, WaitP95, AllP95 float64
}

// rows joins flows and functions by name.
func rows(s *Snapshot) map[string]*Row {
	by := map[string]*Row{}
	row := func(name string) *Row {
		if by[name] == nil {
			by[name] = &Row{Name: explain.FunctionName(name)}
		}
		return by[name]
	}
	for _, f := range s.Functions {
		r := row(f.Function)
		r.Calls, r.Failed, r.WaitP50, r.WaitP95, r.AllP95 = f.Count, f.Failed, f.Wait.P50, f.Wait.P95, f.Latency.P95
	}
	if s.Status.Work != nil {
		for _, f := range s.Status.Work.Flows {
			r := row(f.Flow)
			r.State, r.Queued, r.Running, r.Lead = f.State, f.Queued, f.InFlight, time.Duration(f.LeadMs)*time.Millisecond
		}
	}
	return by
}

// sorts lists the sort keys with their comparisons. The first is the default.
var sorts = []struct {
	column  string
	compare func(a, b *Row) int
}{
	{"queued", func(a, b *Row) int { return b.Queued - a.Queued }},
	{"running", func(a, b *Row) int { return b.Running - a.Running }},
	{"lead", func(a, b *Row) int { return cmp.Compare(b.Lead, a.Lead) }},
	{"wait", func(a, b *Row) int { return cmp.Compare(b.WaitP95, a.WaitP95) }},
	{"latency", func(a, b *Row) int { return cmp.Compare(b.AllP95, a.AllP95) }},
	{"calls", func(a, b *Row) int { return b.Calls - a.Calls }},
	{"name", func(*Row, *Row) int { return 0 }},
}

// Sorts returns the names of the sort keys.
func Sorts() (names []string) {
	for _, s := range sorts {
		names = append(names, s.column)
	}
	return names
}

// arrange filters and sorts rows. Equal rows are sorted by name.
func arrange(all map[string]*Row, by, filter string) (out []*Row) {
	filter = strings.ToLower(filter)
	for _, r := range all {
		if strings.Contains(strings.ToLower(r.Name), filter) || r.State == filter {
			out = append(out, r)
		}
	}
	compare := sorts[max(0, slices.Index(Sorts(), by))].compare
	slices.SortFunc(out, func(a, b *Row) int { return cmp.Or(compare(a, b), cmp.Compare(a.Name, b.Name)) })
	return out
}

// head returns the lines above the functions.
func head(s *Snapshot) []string {
	health := "healthy"
	if !s.Status.Healthy {
		health = "NOT HEALTHY"
	}
	mode := "classic"
	if s.Status.Scheduling != nil {
		mode = "scheduler"
	}
	lines := []string{fmt.Sprintf("%s  %s  up %s  %s mode  gpuwhisk %s", s.Status.Instance, health, s.Status.Uptime, mode, s.Version)}
	for _, r := range s.Status.Reasons {
		lines = append(lines, "  ! "+r)
	}
	w := s.Status.Work
	if w == nil {
		return lines
	}
	queued := 0
	for _, f := range w.Flows {
		queued += f.Queued
	}
	lines = append(lines, fmt.Sprintf("%d in flight, %d queued for a GPU, %d flows, %d containers, %d behind in Kafka, policy %s",
		w.InFlight, queued, len(w.Flows), len(w.Containers), s.Status.Kafka.Lag, cmp.Or(w.Policy, "none")))
	if p := s.Status.Scheduling; p != nil {
		refused := 0
		for outcome, n := range p.Creations {
			if outcome != "opened" {
				refused += n
			}
		}
		lines = append(lines, fmt.Sprintf("%d pulled, %d in flight, %d fetches waiting, %d creations waiting, %d refused",
			p.Pulled, p.Slots.Pulled, p.Fetching, p.Slots.WaitingCreations, refused))
	}
	for _, d := range w.Devices {
		lines = append(lines, d.line())
	}
	return lines
}

// line describes the device.
func (d Device) line() string {
	name := explain.DeviceName(d.Device, d.Simulated)
	if d.Lost != "" {
		return fmt.Sprintf("%-24s  LOST: %s", name, d.Lost)
	}
	busy := ""
	if d.Utilization != nil {
		busy = fmt.Sprintf("  %3.0f%% busy", 100**d.Utilization)
	}
	part := 0.0
	if d.Memory > 0 {
		part = float64(d.Used) / float64(d.Memory)
	}
	return fmt.Sprintf("%-24s  %d/%d tokens  [%s] %s of %s%s", name, d.InFlight, d.Tokens,
		bar(part, 20), explain.Bytes(d.Used), explain.Bytes(d.Memory), busy)
}

func bar(part float64, width int) string {
	n := min(width, max(0, int(part*float64(width)+0.5)))
	return strings.Repeat("#", n) + strings.Repeat(".", width-n)
}

// Print writes a snapshot as plain text.
func Print(w io.Writer, s *Snapshot, by, filter string) error {
	fmt.Fprintf(w, "%s\n\n", strings.Join(head(s), "\n"))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FUNCTION\tSTATE\tQUEUED\tRUNNING\tLEAD\tCALLS\tFAILED\tWAIT P50\tWAIT P95\tALL P95")
	for _, r := range arrange(rows(s), by, filter) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%s\t%s\t%s\n", r.Name, cmp.Or(r.State, "-"), r.Queued, r.Running,
			explain.Short(max(0, r.Lead)), r.Calls, r.Failed, milliseconds(r.WaitP50), milliseconds(r.WaitP95), milliseconds(r.AllP95))
	}
	return t.Flush()
}

func milliseconds(x float64) string {
	if x == 0 {
		return "-"
	}
	return explain.Short(time.Duration(x * float64(time.Millisecond)))
}

// Fit cuts a text to the size of a terminal, and leaves its last line free for the cursor.
// The first lines remain.
func Fit(text string, width, height int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[:min(len(lines), max(1, height-1))]
	for i, line := range lines {
		if r := []rune(line); len(r) > width {
			lines[i] = string(r[:width])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}
