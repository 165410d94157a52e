package docker

import "testing"

// TestLibcOfAnImage looks into the image with Python, which has this machine's
// own libraries, so it has glibc.
func TestLibcOfAnImage(t *testing.T) {
	o := DefaultOptions()
	o.Host = realHost(t)
	d, err := Look(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	l, err := d.Libc(t.Context(), pythonImage(t))
	if err != nil || l.Name != "glibc" || l.Major != 2 || l.Minor < 28 {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := d.Libc(t.Context(), "gpuwhisk/no-such-image:1"); err == nil {
		t.Error("an image that is not there has a C library")
	}
}
