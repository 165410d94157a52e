package gpu

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestFootprintIsTheLargestOfTheLast(t *testing.T) {
	var f Footprint
	_, ok := f.Bytes()
	check.That(t, !ok, "something is known of a function that never ran")
	f.Add(9)
	for range footprints - 1 {
		f.Add(4)
	}
	n, ok := f.Bytes()
	check.Equal(t, n, 9)
	check.That(t, ok, "%d, %t: the first run is not remembered", n, ok)
	for i := range 5 * footprints {
		f.Add(-1)
		if n, _ := f.Bytes(); i == footprints-1 && n != 0 {
			t.Errorf("%d bytes after so many runs without", n)
		}
	}
	n, ok = f.Bytes()
	check.Equal(t, n, 0)
	check.That(t, ok, "%d, %t in the end", n, ok)
}
