//go:build nofigures

package sim

import "errors"

// draw is left out where the program is to be small: it brings six megabytes of
// fonts, and only work on the documents needs it.
func draw(figure, map[string][]*Result, string) error {
	return errors.New("this program draws no figures, to be small; from the sources, make build gives one that does")
}
