//go:build nofigures

package sim

import (
	"context"
	"errors"
	"time"
)

// Figures is left out where the program is to be small: what draws brings six
// megabytes of fonts, and only who works on the documents needs it.
func Figures(context.Context, string, []string, int, int, func() time.Duration, Progress) ([]string, error) {
	return nil, errors.New("this program draws no figures, to be small; from the sources, make build gives one that does")
}

// CheckFigures is for a build that draws.
func CheckFigures([]string) error { return nil }
