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

// series is a curve with its points, as it is drawn.
type series struct {
	curve
	x            []float64
	y            []Spread
	colour, dash string
}

// series computes what a figure draws from the results of its runs.
func (f figure) series(results map[string][]*Result) (all []series) {
	beside := 0
	drawn := map[string]int{} // of several curves of one policy each has dashes of its own
	for i, c := range f.curves {
		s := series{curve: c, colour: tint(c.name, i)}
		s.x, s.y = c.of(results)
		if c.style == dots { // beside each other, where they would hide each other
			by := 0.08 * (float64(beside) - float64(f.count(dots)-1)/2)
			beside++
			s.x = slices.Clone(s.x)
			for k := range s.x {
				s.x[k] += by
			}
		}
		s.dash = dashes[drawn[s.colour]%len(dashes)]
		if c.style == limit || c.style == limits {
			s.dash = dashes[1]
		}
		drawn[s.colour]++
		all = append(all, s)
	}
	return all
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
	all := f.series(results)
	c := &chart{}
	c.layout(f, all)
	c.scale(f, all)
	c.frame(f)
	for _, s := range all {
		c.series(s, 300/float64(max(1, len(f.labels))))
	}
	c.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(c.String()), 0o644)
}

// layout sets where the axes and the legend are drawn: beside the picture there is room
// for the longest name of a curve.
func (c *chart) layout(f figure, all []series) {
	longest := 0
	for _, s := range all {
		if s.style != bars {
			longest = max(longest, len(s.name))
		}
	}
	c.right = chartWidth - 8
	if longest > 0 {
		c.right -= legendLine + 8 + letter*float64(longest)
	}
	c.x.from, c.x.to, c.y.from, c.y.to = marginLeft, c.right-12, chartHeight-marginBottom, marginTop
	if f.count(bars) > 0 {
		c.y.from -= slantedLabels
	}
}

// scale sets the values at the ends of the axes.
func (c *chart) scale(f figure, all []series) {
	for _, a := range []*axis{&c.x, &c.y} {
		a.low, a.high = math.Inf(1), math.Inf(-1)
	}
	c.x.log, c.y.log = f.logX, f.logY
	for _, s := range all {
		for k, v := range s.x {
			c.x.include(v)
			c.y.include(s.y[k].Median)
			if s.style.hasBars() {
				c.y.include(s.y[k].Q10)
				c.y.include(s.y[k].Q90)
			}
		}
	}
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
}

func (f figure) count(s style) (n int) {
	for _, c := range f.curves {
		if c.style == s {
			n++
		}
	}
	return n
}

// frame writes title, axes and their ticks.
func (c *chart) frame(f figure) {
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" font-family="sans-serif" font-size="12">`, chartWidth, chartHeight)
	fmt.Fprintf(c, "\n<title>%s</title>\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n", html.EscapeString(f.title))
	for _, v := range c.y.ticks() {
		c.line(c.x.from, c.y.at(v), c.x.to, c.y.at(v), "#dcdcdc", "none")
		c.text(c.x.from-6, c.y.at(v)+4, "end", "", fmt.Sprintf("%.6g", v))
	}
	c.ticksX(f)
	c.line(c.x.from, c.y.from, c.x.to, c.y.from, "black", "none")
	c.line(c.x.from, c.y.from, c.x.from, c.y.to, "black", "none")
	middle := (c.x.from + c.x.to) / 2
	c.text(middle, 18, "middle", ` font-size="14"`, f.title)
	c.text(middle, chartHeight-10, "middle", "", f.x)
	c.text(0, 0, "middle", fmt.Sprintf(` transform="translate(14 %.1f) rotate(-90)"`, (c.y.from+c.y.to)/2), f.y)
}

func (c *chart) ticksX(f figure) {
	ticks := f.ticks
	if len(ticks) == 0 && len(f.labels) == 0 {
		ticks = c.x.ticks()
	}
	for _, v := range ticks {
		c.line(c.x.at(v), c.y.from, c.x.at(v), c.y.to, "#dcdcdc", "none")
		c.text(c.x.at(v), c.y.from+16, "middle", "", fmt.Sprintf("%.6g", v))
	}
	for i, label := range f.labels {
		at := c.x.at(float64(i))
		if f.count(bars) > 0 { // many: written aslant
			c.text(0, 0, "end", fmt.Sprintf(` transform="translate(%.1f %.1f) rotate(-40)"`, at+4, c.y.from+14), label)
		} else {
			c.text(at, c.y.from+16, "middle", "", label)
		}
	}
}

// hasBars reports whether quantiles are drawn as bars at the medians.
func (s style) hasBars() bool { return s == lines || s == dots }

// series draws one by its style, and its name into the legend.
func (c *chart) series(s series, barWidth float64) {
	path := "M"
	for i, v := range s.x {
		at, median := c.x.at(v), c.y.at(s.y[i].Median)
		path += fmt.Sprintf(" %.1f %.1f", at, median)
		switch s.style {
		case bars:
			fmt.Fprintf(c, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", at-barWidth/2, median, barWidth, c.y.from-median, s.colour)
		case limits:
			c.line(c.x.at(v-0.4), median, c.x.at(v+0.4), median, s.colour, s.dash)
		case lines, dots, dotted:
			c.dot(at, median, s.colour)
		}
		if s.style.hasBars() {
			low, high := c.y.at(s.y[i].Q10), c.y.at(s.y[i].Q90)
			c.line(at, low, at, high, s.colour, "none")
			c.line(at-3, low, at+3, low, s.colour, "none")
			c.line(at-3, high, at+3, high, s.colour, "none")
		}
	}
	if s.style == bars {
		return
	}
	if s.style != limits && s.style != dots {
		fmt.Fprintf(c, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5" stroke-dasharray="%s"/>`+"\n", path, s.colour, s.dash)
	}
	at := marginTop + 8 + legendRow*float64(c.row)
	c.row++
	if s.style == dots {
		c.dot(c.right+legendLine/2, at, s.colour)
	} else {
		c.line(c.right, at, c.right+legendLine, at, s.colour, s.dash)
	}
	c.text(c.right+legendLine+6, at+4, "start", "", s.name)
}

func (c *chart) dot(x, y float64, colour string) {
	fmt.Fprintf(c, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x, y, colour)
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
