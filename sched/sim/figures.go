//go:build !nofigures

package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// drawing is one figure: its file's name and how it is drawn from the results
// of its cells, by seed.
type drawing struct {
	name string
	draw func(at seedReader) (*page, error)
}

// page is a plot with its legend beside it, where it hides nothing.
type page struct {
	*plot.Plot
	legend plot.Legend
}

// save writes the page as SVG.
func (p *page) save(file string) error {
	const width, height = 7.5 * vg.Inch, 4 * vg.Inch
	canvas := vgsvg.New(width, height)
	dc := draw.New(canvas)
	paper := []vg.Point{dc.Min, {X: dc.Max.X, Y: dc.Min.Y}, dc.Max, {X: dc.Min.X, Y: dc.Max.Y}}
	dc.FillPolygon(color.White, paper) // readable on a dark page too
	side := p.legend.Rectangle(dc).Size().X + vg.Points(12)
	p.legend.Draw(dc)
	p.Draw(draw.Crop(dc, 0, -side, vg.Points(4), -vg.Points(2)))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(file, titled(fitted(b.Bytes()), p.Title.Text), 0o644)
}

// seedReader gives a cell's results over the seeds.
type seedReader func(cell int) []*Result

// CheckFigures names the flag where no figure's name begins with one of only.
func CheckFigures(only []string) error {
	for _, d := range allDrawings(&cells{index: make(map[string]int)}, nil) {
		if len(only) == 0 || begins(d.name, only) {
			return nil
		}
	}
	return fmt.Errorf("--only %s: no figure begins so", strings.Join(only, ","))
}

// Figures draws every figure whose name begins with one of only, or all, into
// a folder as SVG and returns the files' names. clock measures what decisions
// cost, for the one figure about it; nothing else depends on it.
func Figures(ctx context.Context, folder string, only []string, seeds, parallel int, clock func() time.Duration, progress Progress) ([]string, error) {
	if err := errors.Join(CheckSeeds(seeds), CheckFigures(only)); err != nil {
		return nil, err
	}
	c := &cells{index: make(map[string]int)}
	var wanted []drawing
	for _, d := range allDrawings(c, clock) {
		if len(only) == 0 || begins(d.name, only) {
			wanted = append(wanted, d)
		}
	}
	needed, err := c.drawn(wanted)
	if err != nil {
		return nil, err
	}
	results, err := c.run(ctx, needed, seeds, parallel, progress)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range wanted {
		p, err := d.draw(func(cell int) []*Result {
			out := make([]*Result, seeds)
			for s := range out {
				out[s] = results[s][cell]
			}
			return out
		})
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", d.name, err)
		}
		file := filepath.Join(folder, d.name+".svg")
		if err := p.save(file); err != nil {
			return nil, fmt.Errorf("write %s: %w", file, err)
		}
		names = append(names, file)
	}
	return names, nil
}

func begins(name string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// drawn finds out which cells the figures read, by letting them draw blanks.
func (c *cells) drawn(wanted []drawing) ([]int, error) {
	seen := make([]bool, len(c.list))
	for _, d := range wanted {
		if d.name == costFigure {
			continue // it measures and reads no cell
		}
		_, err := d.draw(func(cell int) []*Result {
			seen[cell] = true
			return []*Result{sketch}
		})
		if err != nil {
			return nil, fmt.Errorf("sketch %s: %w", d.name, err)
		}
	}
	var out []int
	for i, s := range seen {
		if s {
			out = append(out, i)
		}
	}
	return out, nil
}

// sketch is a result that every figure can draw.
var sketch = &Result{
	Latency: Latency{Count: 1, Mean: 1000, P50: 1000, P99: 1000}, LowerBound: 500, FunctionMean: 1000,
	GapBacklogged: Gap{Mean: 1, Max: 1}, GapBound: 2, ColdShare: 0.1, Utilization: 0.5,
	Functions: []FunctionResult{
		{Name: "a", Latency: Latency{Count: 1, Mean: 1000, Std: 1}}, {Name: "b", Latency: Latency{Count: 1, Mean: 1000, Std: 1}},
		{Name: "c", Latency: Latency{Count: 1, Mean: 1000, Std: 1}}, {Name: "d", Latency: Latency{Count: 1, Mean: 1000, Std: 1}},
	},
	Series: [][]float64{{1, 2, 3, 4}, {1, 2, 3, 4}}, Busy: []float64{0.5, 0.5},
}

// chart starts a figure.
func chart(title, x, y string) *page {
	p := &page{Plot: plot.New(), legend: plot.NewLegend()}
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = x, y
	p.Title.TextStyle.Font.Size, p.Title.Padding = vg.Points(11), vg.Points(6)
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = vg.Points(10), vg.Points(10)
	p.legend.Top, p.legend.Padding = true, vg.Points(3)
	p.legend.YOffs = -vg.Points(24)
	p.legend.TextStyle.Font.Size = vg.Points(9)
	p.X.Tick.Marker, p.Y.Tick.Marker = even{}, even{}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{220}, color.Gray{220}
	p.Add(grid)
	return p
}

// logY makes the y axis logarithmic.
func logY(p *page) {
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = decades{}
}

// curve is a line of medians with bars from q10 to q90.
type curve struct {
	name   string
	x      []float64
	y      []Spread
	dashed bool
	bare   bool // without bars
	loose  bool // without a line
}

// add draws curves, each in the colour of its policy. Of several of one policy
// each has dashes of its own.
func add(p *page, curves ...curve) error {
	drawn := map[color.Color]int{}
	for i, c := range curves {
		of := tint(c.name, i)
		if err := addCurve(p, c, of, drawn[of]); err != nil {
			return err
		}
		drawn[of]++
	}
	return nil
}

// dodged sets dots of several curves beside each other, where they would stand
// at one place of a category.
func dodged(curves []curve) []curve {
	for i := range curves {
		x := make([]float64, len(curves[i].x))
		for k, v := range curves[i].x {
			x[k] = v + 0.08*(float64(i)-float64(len(curves)-1)/2)
		}
		curves[i].x, curves[i].loose = x, true
	}
	return curves
}

// level draws a bound as a short dash at each place of a category.
func level(p *page, c curve) error {
	for i, x := range c.x {
		y := positive(p, c.y[i].Median)
		line, err := plotter.NewLine(plotter.XYs{{X: x - 0.4, Y: y}, {X: x + 0.4, Y: y}})
		if err != nil {
			return err
		}
		line.Color, line.Dashes = boundTint, dashes(1)
		p.Add(line)
		if i == 0 {
			p.legend.Add(c.name, line)
		}
	}
	return nil
}

func addCurve(p *page, c curve, tint color.Color, nth int) error {
	points := make(plotter.XYs, len(c.x))
	bars := make(plotter.YErrors, len(c.x))
	for i := range c.x {
		points[i] = plotter.XY{X: c.x[i], Y: positive(p, c.y[i].Median)}
		bars[i].Low = points[i].Y - positive(p, c.y[i].Q10)
		bars[i].High = positive(p, c.y[i].Q90) - points[i].Y
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, dots.Color = tint, tint
	line.Width, line.Dashes = vg.Points(1.5), dashes(nth)
	dots.Shape, dots.Radius = draw.CircleGlyph{}, vg.Points(2.5)
	if c.dashed {
		line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	}
	if c.loose {
		p.legend.Add(c.name, dots)
	} else {
		p.Add(line)
		p.legend.Add(c.name, line)
	}
	if c.bare {
		return nil
	}
	errors, err := plotter.NewYErrorBars(struct {
		plotter.XYer
		plotter.YErrorer
	}{points, bars})
	if err != nil {
		return err
	}
	errors.Color = tint
	p.Add(dots, errors)
	return nil
}

// positive keeps a value drawable where the axis is logarithmic.
func positive(p *page, v float64) float64 {
	if _, log := p.Y.Scale.(plot.LogScale); log {
		return max(v, 1e-3)
	}
	return v
}

// spread summarizes a figure of each result.
func spread(rs []*Result, f func(*Result) float64) Spread {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = f(r)
	}
	return SpreadOf(v)
}

func bound(r *Result) float64 { return r.bounded() / 1000 }

// row is the curve of one figure over cells.
func row(at seedReader, name string, x []float64, cells []int, f func(*Result) float64) curve {
	c := curve{name: name, x: x}
	for _, cell := range cells {
		c.y = append(c.y, spread(at(cell), f))
	}
	return c
}

// least is the lower bound's curve: what is left to win lies above it.
func least(at seedReader, x []float64, cells []int) curve {
	c := row(at, "lower bound", x, cells, bound)
	c.dashed, c.bare = true, true
	return c
}
