package goheap

import (
	"bytes"
	"strconv"
	"syscall"
	"unsafe"
)

// What madvise(2) is told.
const (
	hugePages   = 14 // MADV_HUGEPAGE
	noHugePages = 15 // MADV_NOHUGEPAGE
	collapse    = 25 // MADV_COLLAPSE, since Linux 6.1
)

// pages has the system lay the heap on huge pages while there is work: what is
// read of it lies spread over more small ones than the processor keeps addresses
// of, and in a virtual machine each that it does not know is found in two steps.
// At rest the system takes back what is not used, small page by small page. A
// system that has been told to use huge pages nowhere, or everywhere, goes on.
type pages struct {
	maps   func() ([]byte, error) // as /proc/self/maps
	advise func(of region, how int) error
	mapped uint64 // how much there was when it was asked for; 0: it was not
}

// region is a range of addresses.
type region struct{ from, to uintptr }

func (p *pages) suit(rests bool, mapped uint64) {
	switch {
	case rests && p.mapped > 0:
		p.mapped = 0
		p.all(noHugePages)
	case !rests && p.mapped != mapped: // Go maps more of it as common memory
		p.mapped = mapped
		p.all(hugePages, collapse)
	}
}

// all tells of every part of the heap. What a system refuses it does not know,
// or was told not to do: then it stays as it was.
func (p *pages) all(how ...int) {
	text, err := p.maps()
	if err != nil {
		return
	}
	for _, r := range heapIn(text, uintptr(unsafe.Pointer(p))) {
		for _, h := range how {
			_ = p.advise(r, h)
		}
	}
}

// arenas is how far the parts of Go's heap lie from each other at most, by
// address, unless there is more of it than that; nothing else of the process
// lies between.
const arenas = 1 << 36

// heapIn gives the parts of the heap, of which one holds an object: what can be
// read and written and is no file, near it.
func heapIn(maps []byte, object uintptr) (heap []region) {
	if unsafe.Sizeof(object) < 8 {
		return nil
	}
	for line := range bytes.Lines(maps) {
		f := bytes.Fields(line) // range, permissions, offset, device, inode, name
		if len(f) < 5 || string(f[1]) != "rw-p" || string(f[4]) != "0" || len(f) > 5 && !bytes.HasPrefix(f[5], []byte("[anon")) {
			continue
		}
		from, to, _ := bytes.Cut(f[0], []byte("-"))
		a, errA := strconv.ParseUint(string(from), 16, 64)
		b, errB := strconv.ParseUint(string(to), 16, 64)
		if errA == nil && errB == nil && a/arenas == uint64(object)/arenas {
			heap = append(heap, region{uintptr(a), uintptr(b)})
		}
	}
	return heap
}

func madvise(of region, how int) error {
	_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, of.from, of.to-of.from, uintptr(how))
	if errno != 0 {
		return errno
	}
	return nil
}
