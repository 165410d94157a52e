package gpucheck

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// numbers are the measurements of a trial by name, in order of time.
type numbers struct {
	mu    sync.Mutex
	named map[string][]float64
}

func (n *numbers) add(name string, v float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.named[name] = append(n.named[name], v)
}

// of returns the numbers of a name. A name may be a number itself.
func (n *numbers) of(name string) []float64 {
	if v, err := strconv.ParseFloat(name, 64); err == nil {
		return []float64{v}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	base, part, _ := strings.Cut(name, "[")
	xs := slices.Clone(n.named[base])
	first := min(1, len(xs))
	return map[string][]float64{"": xs, "0]": xs[:first], "1:]": xs[first:]}[part]
}

// last is the latest number of a name, 0 if there is none.
func (n *numbers) last(name string) float64 {
	xs := n.of(name)
	return total(xs[max(0, len(xs)-1):])
}

// reference is $NAME or ${FORMAT NAME}.
var reference = regexp.MustCompile(`\$([\w.-]+)|\$\{(\w+) ([^}]+)\}`)

// expand replaces the references in a text.
func (n *numbers) expand(text string) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		m := reference.FindStringSubmatch(found)
		if m[1] != "" {
			return strconv.FormatInt(int64(n.last(m[1])), 10)
		}
		xs := n.of(m[3])
		if len(xs) == 0 && m[2] != "count" && m[2] != "size" {
			return "unknown"
		}
		return formats[m[2]](xs)
	})
}

// formats print numbers. Times are in nanoseconds.
var formats = map[string]func([]float64) string{
	"gbs":     func(xs []float64) string { return fmt.Sprintf("%.1f", median(xs)) },
	"ms":      func(xs []float64) string { return fmt.Sprintf("%.2f", median(xs)/1e6) },
	"late":    func(xs []float64) string { return fmt.Sprintf("%.2f", quantile(0.9, xs)/1e6) },
	"slowest": func(xs []float64) string { return fmt.Sprintf("%.2f", quantile(1, xs)/1e6) },
	"seconds": func(xs []float64) string { return fmt.Sprintf("%.2f", total(xs)/1e9) },
	"share":   func(xs []float64) string { return percent(median(xs)) },
	"count":   func(xs []float64) string { return plain(total(xs)) },
	"size":    func(xs []float64) string { return size(int64(total(xs))) },
}

// plain is a number with one decimal at most.
func plain(v float64) string { return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64) }

func percent(v float64) string {
	return fmt.Sprintf(pick(v >= 0.1 || v <= -0.1, "%.0f%%", "%.2f%%"), 100*v)
}

func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d B", n)
}

// pick is one of two values for a fact.
func pick[T any](is bool, yes, no T) T {
	if is {
		return yes
	}
	return no
}
