package gpu

import "testing"

func TestFootprintIsTheLargestOfTheLast(t *testing.T) {
	var f Footprint
	if _, ok := f.Bytes(); ok {
		t.Error("something is known of a function that never ran")
	}
	f.Add(9)
	for range footprints - 1 {
		f.Add(4)
	}
	if n, ok := f.Bytes(); n != 9 || !ok {
		t.Errorf("%d, %t: the first run is not remembered", n, ok)
	}
	for i := range 5 * footprints {
		f.Add(-1)
		if n, _ := f.Bytes(); i == footprints-1 && n != 0 {
			t.Errorf("%d bytes after so many runs without", n)
		}
	}
	if n, ok := f.Bytes(); n != 0 || !ok {
		t.Errorf("%d, %t in the end", n, ok)
	}
}
