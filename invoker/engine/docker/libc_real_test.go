package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestLibcOfAnImage looks into the image with Python, which has this machine's
// own libraries, so it has glibc.
func TestLibcOfAnImage(t *testing.T) {
	o := DefaultOptions()
	o.Host = realHost(t)
	d, err := Connect(o)
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

// TestLibcOfOtherImages looks into images with an older glibc and with musl.
func TestLibcOfOtherImages(t *testing.T) {
	old, musl := peertest.Variable(t, "GPUWHISK_TEST_OLD_GLIBC", "oldlibc.sh"), peertest.Variable(t, "GPUWHISK_TEST_MUSL", "oldlibc.sh")
	o := DefaultOptions()
	o.Host = realHost(t)
	d, err := Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for image, want := range map[string]Libc{old: {Name: "glibc", Major: 2, Minor: 27}, musl: {Name: "musl"}} {
		if got, err := d.Libc(t.Context(), image); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", image, got, err, want)
		}
	}
}

// TestThinImage looks into an image with nothing but a program and libc.so.6.
func TestThinImage(t *testing.T) {
	r := startReal(t, nil)
	libc, err := filepath.Glob("/lib/*-linux-gnu/libc.so.6")
	if err != nil || len(libc) != 1 {
		t.Skip("no libc.so.6 where Debian has it")
	}
	data, err := os.ReadFile(libc[0])
	if err != nil {
		t.Fatal(err)
	}
	var root bytes.Buffer
	archive := tar.NewWriter(&root)
	err = archive.WriteHeader(&tar.Header{Name: strings.TrimPrefix(libc[0], "/"), Mode: 0o755, Size: int64(len(data))})
	if err == nil {
		_, err = archive.Write(data)
	}
	const image = "gpuwhisk-test.invalid/thin:1"
	if err = errors.Join(err, archive.Close()); err == nil {
		err = importImage(image, &root)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.images = append(r.images, image)
	d, err := Connect(r.options)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if l, err := d.Libc(t.Context(), image); err != nil || l.Name != "glibc" || l.Lacks != "libpthread.so.0 libdl.so.2" {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := d.Libc(t.Context(), pythonImage(t)); err != nil || l.Lacks != "" {
		t.Errorf("the image with Python: %+v, %v", l, err)
	}
}
