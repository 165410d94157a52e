package top

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// Options holds the source of the snapshots and the first state of the screen.
type Options struct {
	Ask    func(ctx context.Context) (*Snapshot, error)
	Sort   string
	Filter string
	Screen tcell.Screen // nil means the terminal
	// Drawn is called after each drawing. It may be nil.
	Drawn func(tcell.Screen)
}

// interval is the time between two snapshots.
const interval = time.Second

// screen is the open screen. Only tview's loop uses its fields.
type screen struct {
	o      Options
	app    *tview.Application
	head   *tview.TextView
	table  *tview.Table
	foot   *tview.InputField
	rows   *tview.Flex // head, table and foot
	last   *Snapshot
	paused bool
	width  int // of the terminal
}

// Show shows the screen until ctx ends or q is pressed.
func Show(ctx context.Context, o Options) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := &screen{o: o, app: tview.NewApplication(), head: tview.NewTextView(), table: tview.NewTable(), foot: tview.NewInputField()}
	if o.Screen != nil {
		s.app.SetScreen(o.Screen)
	}
	if o.Drawn != nil {
		s.app.SetAfterDrawFunc(o.Drawn)
	}
	s.table.SetFixed(1, 1).SetSelectable(true, false)
	s.foot.SetLabel(s.label()).SetText(o.Filter).SetChangedFunc(func(text string) { s.o.Filter = text; s.draw() })
	s.foot.SetDoneFunc(func(tcell.Key) { s.app.SetFocus(s.table) })
	rows := tview.NewFlex().SetDirection(tview.FlexRow).
		AddItem(s.head, 4, 0, false).AddItem(s.table, 0, 1, true).AddItem(s.foot, 1, 0, false)
	s.rows = rows
	s.app.SetRoot(rows, true).SetInputCapture(s.key).SetBeforeDrawFunc(func(t tcell.Screen) bool {
		if width, _ := t.Size(); width != s.width {
			s.width = width
			s.draw()
		}
		return false
	})
	asked := make(chan struct{})
	go func() { defer close(asked); s.ask(ctx) }()
	stop := context.AfterFunc(ctx, s.app.Stop)
	defer stop()
	err := s.app.Run()
	end()
	<-asked
	return err
}

// ask asks for a snapshot each second.
func (s *screen) ask(ctx context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		snap, err := s.o.Ask(ctx)
		if ctx.Err() != nil {
			return
		}
		// QueueUpdateDraw blocks for ever after the loop has ended, so it runs in a goroutine.
		go s.app.QueueUpdateDraw(func() {
			if err != nil {
				s.head.SetText("no answer, trying again: " + err.Error())
				return
			}
			if !s.paused {
				s.last = snap
				s.draw()
			}
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *screen) label() string {
	if s.width < wide {
		return fmt.Sprintf("by %s: s sort, p pause, q quit, / filter: ", s.o.Sort)
	}
	return fmt.Sprintf("sorted by %s | s sort  / filter  p pause  q quit | filter: ", s.o.Sort)
}

func (s *screen) key(e *tcell.EventKey) *tcell.EventKey {
	if s.app.GetFocus() == s.foot {
		return e
	}
	switch e.Rune() {
	case 'q':
		s.app.Stop()
	case '/':
		s.app.SetFocus(s.foot)
	case 'p':
		s.paused = !s.paused
	case 's':
		all := Sorts()
		s.o.Sort = all[(slices.Index(all, s.o.Sort)+1)%len(all)]
		s.foot.SetLabel(s.label())
		s.draw()
	default:
		return e
	}
	return nil
}

// draw fills the screen from the last snapshot.
func (s *screen) draw() {
	s.foot.SetLabel(s.label())
	if s.last == nil {
		return
	}
	s.drawHead()
	columns, room := fitting(s.width)
	s.table.Clear()
	for i, title := range append([]string{"function"}, titles(columns)...) {
		s.table.SetCell(0, i, tview.NewTableCell(strings.ToUpper(title)).SetSelectable(false).SetTextColor(tcell.ColorTeal))
	}
	for i, r := range arrange(rows(s.last), s.o.Sort, s.o.Filter) {
		s.setCell(i+1, 0, r, tview.NewTableCell(tview.Escape(r.Name)).SetMaxWidth(room))
		for k, c := range columns {
			cell := tview.NewTableCell(tview.Escape(c.text(r)))
			if c.title != "state" {
				cell.SetAlign(tview.AlignRight)
			}
			s.setCell(i+1, k+1, r, cell)
		}
	}
}

// drawHead makes the head as tall as its lines are when they are wrapped.
func (s *screen) drawHead() {
	text := strings.Join(head(s.last, s.width), "\n")
	s.head.SetText(text)
	s.rows.ResizeItem(s.head, len(tview.WordWrap(text, max(s.width, 1)))+1, 0)
}

func titles(columns []column) (all []string) {
	for _, c := range columns {
		all = append(all, c.title)
	}
	return all
}

// setCell adds a cell in the colour of its row.
func (s *screen) setCell(row, column int, r *Row, cell *tview.TableCell) {
	if r.State == "throttled" {
		cell.SetTextColor(tcell.ColorOlive)
	}
	s.table.SetCell(row, column, cell)
}
