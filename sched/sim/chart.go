package sim

import (
	"fmt"
	"html"
	"math"
	"os"
	"slices"
	"strings"
)

// A picture is of this size, in pixels, with a margin for axes and title; the legend is
// beside it.
const (
	chartWidth, chartHeight       = 720.0, 384.0
	marginLeft, marginTop         = 64.0, 32.0
	marginBottom, slantedLabels   = 52.0, 40.0
	legendLine, letter, legendRow = 26.0, 6.4, 16.0
)

// axis maps values to pixels.
type axis struct {
	low, high float64 // the values at its ends
	from, to  float64 // the pixels
	log       bool
}

// leastLog is what a logarithmic axis shows of smaller values.
const leastLog = 1e-3

// include widens the axis to a value.
func (a *axis) include(v float64) {
	if a.log {
		v = max(v, leastLog)
	}
	a.low, a.high = min(a.low, v), max(a.high, v)
}

// at is where a value is drawn.
func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(max(v, leastLog)), math.Log(low), math.Log(high)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// ticks are round values: powers of ten with their doubles and halves on a logarithmic
// axis that has few of them, and at most eight steps on a linear one.
func (a axis) ticks() (list []float64) {
	if !a.log {
		const most = 8
		step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/most)))
		for _, by := range []float64{2, 2.5, 2} { // to 2, 5 and 10
			if (a.high-a.low)/step > most {
				step *= by
			}
		}
		for k := math.Ceil(a.low / step); k*step <= a.high*(1+1e-9); k++ {
			list = append(list, k*step)
		}
		return list
	}
	steps := []float64{1}
	if a.high/a.low < 300 {
		steps = []float64{1, 2, 5}
	}
	for decade := math.Pow(10, math.Floor(math.Log10(a.low))); decade <= a.high; decade *= 10 {
		for _, by := range steps {
			if v := decade * by; v >= a.low*(1-1e-9) && v <= a.high*(1+1e-9) {
				list = append(list, v)
			}
		}
	}
	return list
}

// chart is a figure that is being written as SVG.
type chart struct {
	strings.Builder
	x, y  axis
	right float64 // the left edge of the legend
	row   int     // of the legend
}

// draw writes a figure of results into an SVG file.
func draw(f figure, results map[string][]*Result, file string) error {
	c := &chart{x: axis{low: math.Inf(1), high: math.Inf(-1), log: f.logX}, y: axis{low: math.Inf(1), high: math.Inf(-1), log: f.logY}}
	longest, beside := 0, 0
	type points struct {
		x []float64
		y []Spread
	}
	all := make([]points, len(f.curves))
	for i, curve := range f.curves {
		p := points{}
		p.x, p.y = curve.of(results)
		if curve.style == dots { // beside each other, where they would hide each other
			by := 0.08 * (float64(beside) - float64(f.count(dots)-1)/2)
			beside++
			p.x = slices.Clone(p.x) // curves share theirs
			for k := range p.x {
				p.x[k] += by
			}
		}
		for k, v := range p.x {
			c.x.include(v)
			c.y.include(p.y[k].Median)
			if curve.style.hasBars() {
				c.y.include(p.y[k].Q10)
				c.y.include(p.y[k].Q90)
			}
		}
		all[i] = p
		if curve.style != bars {
			longest = max(longest, len(curve.name))
		}
	}
	c.frame(f, longest)
	drawn := map[string]int{} // of several curves of one policy each has dashes of its own
	for i, curve := range f.curves {
		colour := tint(curve.name, i)
		c.curve(curve, all[i].x, all[i].y, colour, dashes[drawn[colour]%len(dashes)], 300/float64(max(1, len(f.labels))))
		drawn[colour]++
	}
	c.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(c.String()), 0o644)
}

func (f figure) count(s style) (n int) {
	for _, c := range f.curves {
		if c.style == s {
			n++
		}
	}
	return n
}

// frame sets the axes' ranges and writes title, axes and their ticks.
func (c *chart) frame(f figure, longest int) {
	bottom := chartHeight - marginBottom
	slanted := f.count(bars) > 0
	if slanted {
		bottom -= slantedLabels
	}
	c.right = chartWidth - 8
	if longest > 0 {
		c.right -= legendLine + 8 + letter*float64(longest)
	}
	c.x.from, c.x.to, c.y.from, c.y.to = marginLeft, c.right-12, bottom, marginTop
	switch {
	case len(f.labels) > 0:
		c.x.low, c.x.high = -0.5, float64(len(f.labels))-0.5
	case len(f.ticks) > 0 && f.count(dots) > 0:
		c.x.low, c.x.high = f.ticks[0]-0.5, f.ticks[len(f.ticks)-1]+0.5
	}
	if f.minY != 0 || !f.logY {
		c.y.low = f.minY
	}
	if f.maxY != 0 {
		c.y.high = f.maxY
	}
	if f.logY {
		c.y.low, c.y.high = c.y.low/1.1, c.y.high*1.1
	}
	for _, a := range []*axis{&c.x, &c.y} {
		if a.low >= a.high { // one value
			a.low, a.high = a.low*0.9, a.low*1.1+0.1
		}
	}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" font-family="sans-serif" font-size="12">`, chartWidth, chartHeight)
	fmt.Fprintf(c, "\n<title>%s</title>\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n", html.EscapeString(f.title))
	for _, v := range c.y.ticks() {
		c.line(c.x.from, c.y.at(v), c.x.to, c.y.at(v), "#dcdcdc", "none")
		c.text(c.x.from-6, c.y.at(v)+4, "end", "", fmt.Sprintf("%.6g", v))
	}
	c.ticksX(f, bottom, slanted)
	c.line(c.x.from, c.y.from, c.x.to, c.y.from, "black", "none")
	c.line(c.x.from, c.y.from, c.x.from, c.y.to, "black", "none")
	middle := (c.x.from + c.x.to) / 2
	c.text(middle, 18, "middle", ` font-size="14"`, f.title)
	c.text(middle, chartHeight-10, "middle", "", f.x)
	c.text(0, 0, "middle", fmt.Sprintf(` transform="translate(14 %.1f) rotate(-90)"`, (c.y.from+c.y.to)/2), f.y)
}

func (c *chart) ticksX(f figure, bottom float64, slanted bool) {
	ticks := f.ticks
	if len(ticks) == 0 && len(f.labels) == 0 {
		ticks = c.x.ticks()
	}
	for _, v := range ticks {
		c.line(c.x.at(v), c.y.from, c.x.at(v), c.y.to, "#dcdcdc", "none")
		c.text(c.x.at(v), bottom+16, "middle", "", fmt.Sprintf("%.6g", v))
	}
	for i, label := range f.labels {
		at := c.x.at(float64(i))
		if slanted {
			c.text(0, 0, "end", fmt.Sprintf(` transform="translate(%.1f %.1f) rotate(-40)"`, at+4, bottom+14), label)
		} else {
			c.text(at, bottom+16, "middle", "", label)
		}
	}
}

// hasBars reports whether quantiles are drawn as bars at the medians.
func (s style) hasBars() bool { return s == lines || s == dots }

// curve draws one by its style, and its name into the legend.
func (c *chart) curve(k curve, x []float64, y []Spread, colour, dash string, barWidth float64) {
	if k.style == limit || k.style == limits {
		dash = dashes[1]
	}
	path := "M"
	for i, v := range x {
		at, median := c.x.at(v), c.y.at(y[i].Median)
		path += fmt.Sprintf(" %.1f %.1f", at, median)
		switch k.style {
		case bars:
			fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", at-barWidth/2, median, barWidth, c.y.from-median, colour)
		case limits:
			c.line(c.x.at(v-0.4), median, c.x.at(v+0.4), median, colour, dash)
		case lines, dots, dotted:
			fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", at, median, colour)
		}
		if k.style.hasBars() {
			low, high := c.y.at(y[i].Q10), c.y.at(y[i].Q90)
			c.line(at, low, at, high, colour, "none")
			c.line(at-3, low, at+3, low, colour, "none")
			c.line(at-3, high, at+3, high, colour, "none")
		}
	}
	if k.style != bars && k.style != limits && k.style != dots {
		fmt.Fprintf(c, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-dasharray="%s"/>`+"\n", path, colour, dash)
	}
	c.name(k, colour, dash)
}

// name writes a curve's name into the legend.
func (c *chart) name(k curve, colour, dash string) {
	if k.style == bars {
		return
	}
	at := marginTop + 8 + legendRow*float64(c.row)
	c.row++
	if k.style == dots {
		fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", c.right+legendLine/2, at, colour)
	} else {
		c.line(c.right, at, c.right+legendLine, at, colour, dash)
	}
	c.text(c.right+legendLine+6, at+4, "start", "", k.name)
}

func (c *chart) line(x1, y1, x2, y2 float64, colour, dash string) {
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="1.5" stroke-dasharray="%s"/>`+"\n", x1, y1, x2, y2, colour, dash)
}

func (c *chart) text(x, y float64, anchor, more, text string) {
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(text))
}

// tints gives each policy one colour, in every figure. Most are those of Okabe and
// Ito, which colour-blind readers can tell apart.
var tints = map[string]string{
	"mqfq-sticky": "#0072b2", "fcfs": "#d55e00", "sticky-plus": "#009e73", "batch": "#cc79a7", "eevdf": "#e69f00",
	"mqfq": "#56b4e9", "sjf": "#5a5a5a", "paella": "#a07828", "sfq": "#963cbe", "naive": "#781414",
}

// others are for curves that stand for no policy: functions, numbers of tokens.
var others = []string{"#3c3c3c", "#aa3377", "#228822", "#bba014"}

// boundTint is grey: what no policy can be below, or above.
const boundTint = "#6e6e6e"

// tint is the colour of a curve by its name, which begins with its policy's if it
// is of one.
func tint(name string, i int) string {
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
var dashes = []string{"none", "8 4", "3 3"}
