//go:build !nofigures

package sim

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestEveryFigureCanBeDrawn draws each from blank results.
func TestEveryFigureCanBeDrawn(t *testing.T) {
	c := &cells{index: make(map[string]int)}
	all := allDrawings(c, nil)
	needed, err := c.drawn(all)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 14 || len(needed) != len(c.list) {
		t.Errorf("%d figures read %d of %d cells", len(all), len(needed), len(c.list))
	}
}

// TestFiguresAreDrawnTheSameTwice runs and draws some of them.
func TestFiguresAreDrawnTheSameTwice(t *testing.T) {
	names := []string{"fairness-mqfq-sticky", "gap", "functions", "utilization", "gpus"}
	var folders [2]string
	for i := range folders {
		folders[i] = t.TempDir()
		if _, err := Figures(context.Background(), folders[i], names, 1, 0, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range names {
		a, err := os.ReadFile(filepath.Join(folders[0], n+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(folders[1], n+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(a, []byte("<?xml")) || !bytes.Contains(a, []byte("</svg>")) {
			t.Errorf("%s is no SVG", n)
		}
		if !bytes.Equal(a, b) {
			t.Errorf("%s was drawn differently the second time", n)
		}
	}
}

func TestCostIsMeasured(t *testing.T) {
	tick := time.Duration(0)
	us, err := decisionCost(mqfq, 10, func() time.Duration { tick += time.Second; return tick })
	if err != nil || us != 500 {
		t.Errorf("%v us, %v: want a second over 2,000 activations", us, err)
	}
}
