//go:build !nofigures

package sim

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

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

// dashes tells curves of one policy apart: the first is whole.
func dashes(nth int) []vg.Length {
	return [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}}[nth%3]
}

// even is a ticker of whole steps: 1, 2 or 5 times a power of ten, some five of
// them over the axis.
type even struct{}

func (even) Ticks(low, high float64) (ticks []plot.Tick) {
	if !(high > low) {
		return plot.DefaultTicks{}.Ticks(low, high)
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/5)))
	for _, by := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*by) <= 7 {
			step *= by
			break
		}
	}
	for v := math.Ceil(low/step) * step; v <= high+step/1e6; v += step {
		if math.Abs(v) < step/1e6 {
			v = 0
		}
		ticks = append(ticks, plot.Tick{Value: v, Label: fmt.Sprintf("%.6g", v)})
	}
	return ticks
}

// decades is a ticker for logarithmic axes: powers of ten, and where there are
// few of them also twice and five times these.
type decades struct{}

func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
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

// titled gives a picture a title, which is what a screen reader says of it.
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
