//go:build !nofigures

package sim

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// canvas is a plot with its legend beside it, where it hides nothing.
type canvas struct {
	*plot.Plot
	legend plot.Legend
}

// draw draws a figure of results into an SVG file.
func draw(f figure, results map[string][]*Result, file string) error {
	p := newCanvas(f)
	drawn := map[color.Color]int{} // of several curves of one policy each has dashes of its own
	beside := 0
	for i, c := range f.curves {
		tint := tint(c.name, i)
		x, y := c.of(results)
		if c.style == dots {
			x = shifted(x, beside, f.count(dots))
			beside++
		}
		var err error
		switch c.style {
		case bars:
			err = p.bar(x[0], y[0].Median, tint, len(f.labels))
		case limits:
			err = p.limits(c.name, x, y)
		default:
			err = p.curve(c, x, y, tint, drawn[tint])
		}
		if err != nil {
			return err
		}
		drawn[tint]++
	}
	p.axes(f)
	return p.save(file)
}

func (f figure) count(s style) (n int) {
	for _, c := range f.curves {
		if c.style == s {
			n++
		}
	}
	return n
}

// shifted sets the nth of so many curves beside the others, where they would
// stand on top of each other.
func shifted(x []float64, nth, of int) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v + 0.08*(float64(nth)-float64(of-1)/2)
	}
	return out
}

func newCanvas(f figure) *canvas {
	p := &canvas{Plot: plot.New(), legend: plot.NewLegend()}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.title, f.x, f.y
	p.Title.TextStyle.Font.Size, p.Title.Padding = vg.Points(11), vg.Points(6)
	p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = vg.Points(10), vg.Points(10)
	p.legend.Top, p.legend.Padding, p.legend.YOffs = true, vg.Points(3), -vg.Points(24)
	p.legend.TextStyle.Font.Size = vg.Points(9)
	if f.logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	}
	if f.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{220}, color.Gray{220}
	p.Add(grid)
	return p
}

// axes sets the figure's ranges and ticks, after all curves have widened them.
func (p *canvas) axes(f figure) {
	switch {
	case len(f.ticks) > 0:
		var ticks plot.ConstantTicks
		for _, v := range f.ticks {
			ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%g", v)})
		}
		p.X.Tick.Marker = ticks
		if f.count(dots) > 0 {
			p.X.Min, p.X.Max = f.ticks[0]-0.5, f.ticks[len(f.ticks)-1]+0.5
		}
	case len(f.labels) > 0:
		p.X.Min, p.X.Max = -0.5, float64(len(f.labels))-0.5
		p.NominalX(f.labels...)
		if f.count(bars) > 0 { // many: written aslant
			p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = 0.7, vgdraw.XRight, vgdraw.YCenter
		}
	}
	if f.minY != 0 || !f.logY {
		p.Y.Min = f.minY
	}
	if f.maxY != 0 {
		p.Y.Max = f.maxY
	}
	if f.logY && p.Y.Min == p.Y.Max {
		p.Y.Min, p.Y.Max = p.Y.Min/2, p.Y.Max*2 // plot would widen it by 1, to 0
	}
}

// curve draws points, joined or with bars, by its style.
func (p *canvas) curve(c curve, x []float64, y []Spread, tint color.Color, nth int) error {
	xys, errs := make(plotter.XYs, len(x)), make(plotter.YErrors, len(x))
	for i := range x {
		xys[i] = plotter.XY{X: x[i], Y: p.positive(y[i].Median)}
		errs[i].Low, errs[i].High = xys[i].Y-p.positive(y[i].Q10), p.positive(y[i].Q90)-xys[i].Y
	}
	line, points, err := plotter.NewLinePoints(xys)
	if err != nil {
		return err
	}
	line.Color, points.Color = tint, tint
	line.Width, line.Dashes = vg.Points(1.5), dashes(nth)
	points.Shape, points.Radius = vgdraw.CircleGlyph{}, vg.Points(2.5)
	if c.style == limit {
		line.Dashes = dashes(1)
	}
	switch c.style {
	case dots:
		p.legend.Add(c.name, points)
	case dotted:
		p.Add(line, points)
		p.legend.Add(c.name, line, points)
	default:
		p.Add(line)
		p.legend.Add(c.name, line)
	}
	if c.style != lines && c.style != dots {
		return nil
	}
	between, err := plotter.NewYErrorBars(struct {
		plotter.XYer
		plotter.YErrorer
	}{xys, errs})
	if err != nil {
		return err
	}
	between.Color = tint
	p.Add(points, between)
	return nil
}

// limits draws a bound as a short dash at each category.
func (p *canvas) limits(name string, x []float64, y []Spread) error {
	for i := range x {
		v := p.positive(y[i].Median)
		line, err := plotter.NewLine(plotter.XYs{{X: x[i] - 0.4, Y: v}, {X: x[i] + 0.4, Y: v}})
		if err != nil {
			return err
		}
		line.Color, line.Dashes = boundTint, dashes(1)
		p.Add(line)
		if i == 0 {
			p.legend.Add(name, line)
		}
	}
	return nil
}

// bar draws one of so many bars.
func (p *canvas) bar(x, value float64, tint color.Color, of int) error {
	b, err := plotter.NewBarChart(plotter.Values{value}, vg.Points(270/float64(of)))
	if err != nil {
		return err
	}
	b.XMin, b.Color, b.LineStyle.Width = x, tint, 0
	p.Add(b)
	return nil
}

// positive keeps a value drawable where the axis is logarithmic.
func (p *canvas) positive(v float64) float64 {
	if _, log := p.Y.Scale.(plot.LogScale); log {
		return max(v, 1e-3)
	}
	return v
}

// save writes the canvas as SVG.
func (p *canvas) save(file string) error {
	const width, height = 7.5 * vg.Inch, 4 * vg.Inch
	svg := vgsvg.New(width, height)
	dc := vgdraw.New(svg)
	dc.FillPolygon(color.White, []vg.Point{dc.Min, {X: dc.Max.X, Y: dc.Min.Y}, dc.Max, {X: dc.Min.X, Y: dc.Max.Y}}) // readable on a dark page too
	side := p.legend.Rectangle(dc).Size().X + vg.Points(12)
	p.legend.Draw(dc)
	p.Draw(vgdraw.Crop(dc, 0, -side, vg.Points(4), -vg.Points(2)))
	var b bytes.Buffer
	if _, err := svg.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(file, titled(fitted(b.Bytes()), p.Title.Text), 0o644)
}

// palette is Okabe and Ito's, which colour-blind readers can tell apart.
var palette = [...]color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255},
	{230, 159, 0, 255}, {86, 180, 233, 255}, {90, 90, 90, 255}, {160, 120, 40, 255}, {0, 0, 0, 255},
}

// tints gives each policy one colour, in every figure.
var tints = map[string]color.RGBA{
	"mqfq-sticky": palette[0], "fcfs": palette[1], "sticky-plus": palette[2], "batch": palette[3], "eevdf": palette[4],
	"mqfq": palette[5], "sjf": palette[6], "paella": palette[7], "sfq": {150, 60, 190, 255}, "naive": {120, 20, 20, 255},
}

// others are for curves that stand for no policy: functions, numbers of tokens.
var others = [...]color.RGBA{{60, 60, 60, 255}, {170, 51, 119, 255}, {34, 136, 51, 255}, {187, 160, 20, 255}}

// bounds are grey: what no policy can be below, or above.
var boundTint = color.RGBA{110, 110, 110, 255}

// tint is the colour of a curve by its name, which begins with its policy's if it
// is of one.
func tint(name string, i int) color.Color {
	policy, _, _ := strings.Cut(name, ",")
	if c, ok := tints[policy]; ok {
		return c
	}
	if strings.Contains(name, "bound") {
		return boundTint
	}
	return others[i%len(others)]
}

// dashes distinguish the curves of one policy: the first is whole.
func dashes(nth int) []vg.Length {
	return [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}[nth%3]
}

// decades is a ticker for logarithmic axes: powers of ten, and where there are
// few of them also twice and five times these.
type decades struct{}

func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
	if !(low > 0) {
		return plot.DefaultTicks{}.Ticks(low, high)
	}
	few := math.Log10(high/low) < 2.5
	for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
		for by := 1.0; by < 10; by++ {
			v := decade * by
			if v < low || v > high {
				continue
			}
			t := plot.Tick{Value: v}
			if by == 1 || few && (by == 2 || by == 5) {
				t.Label = fmt.Sprintf("%.6g", v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// titled gives a picture a title, which a screen reader reads out.
func titled(svg []byte, title string) []byte {
	at := bytes.Index(svg, []byte("<svg"))
	if at < 0 {
		return svg
	}
	end := at + bytes.IndexByte(svg[at:], '>') + 1
	text := "\n<title>" + html.EscapeString(title) + "</title>"
	return append(svg[:end:end], append([]byte(text), svg[end:]...)...)
}

// label is a text as gonum writes it: what comes before its style, size, words.
var label = regexp.MustCompile(`<text ([^>]*)style="font-family:Liberation Serif;[^"]*font-size:([0-9.]+)px">([^<]*)</text>`)

// fitted has texts take the width that they were laid out with: a machine without
// the font shows another, and what is wider would lie over lines and the edge.
func fitted(svg []byte) []byte {
	return label.ReplaceAllFunc(svg, func(text []byte) []byte {
		part := label.FindSubmatch(text)
		size, err := strconv.ParseFloat(string(part[2]), 64)
		if err != nil {
			return text
		}
		face := font.DefaultCache.Lookup(font.Font{Typeface: "Liberation", Variant: "Serif"}, vg.Points(size))
		width := face.Width(html.UnescapeString(string(part[3]))).Points()
		return fmt.Appendf(nil, `<text %sstyle="font-family:'Liberation Serif','Times New Roman',Times,serif;font-size:%spx" textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`,
			part[1], part[2], width, part[3])
	})
}
