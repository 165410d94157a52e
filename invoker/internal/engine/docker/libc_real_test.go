package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// TestLibcOfAnImage looks into the image with Python, which has this machine's
// own libraries, so it has glibc.
func TestLibcOfAnImage(t *testing.T) {
	o := DefaultOptions()
	o.Host = realHost(t)
	d, err := Connect(o)
	check.NoError(t, err)
	defer d.Close()
	l, err := d.Libc(t.Context(), pythonImage(t))
	check.NoError(t, err)
	check.Equal(t, l.Name, "glibc")
	check.Equal(t, l.Major, 2)
	check.AtLeast(t, l.Minor, 28)
	_, err = d.Libc(t.Context(), "gpuwhisk/no-such-image:1")
	check.That(t, err != nil, "an image that is not there has a C library")
}

// TestLibcOfOtherImages looks into images with an older glibc and with musl.
func TestLibcOfOtherImages(t *testing.T) {
	old, musl := peertest.Variable(t, "GPUWHISK_TEST_OLD_GLIBC", "oldlibc.sh"), peertest.Variable(t, "GPUWHISK_TEST_MUSL", "oldlibc.sh")
	o := DefaultOptions()
	o.Host = realHost(t)
	d, err := Connect(o)
	check.NoError(t, err)
	defer d.Close()
	for image, want := range map[string]Libc{old: {Name: "glibc", Major: 2, Minor: 27}, musl: {Name: "musl"}} {
		got, err := d.Libc(t.Context(), image)
		check.NoError(t, err, "%s: %+v, want %+v", image, got, want)
		check.Equal(t, got, want, "%s", image)
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
	check.NoError(t, err)
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
	check.NoError(t, err)
	r.images = append(r.images, image)
	d, err := Connect(r.options)
	check.NoError(t, err)
	defer d.Close()
	l, err := d.Libc(t.Context(), image)
	check.NoError(t, err)
	check.Equal(t, l.Name, "glibc")
	check.Equal(t, l.Lacks, "libpthread.so.0 libdl.so.2")
	l, err = d.Libc(t.Context(), pythonImage(t))
	check.NoError(t, err, "the image with Python")
	check.Equal(t, l.Lacks, "", "the image with Python")
}
