package warmth

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

const headForm = "%c %019d %016x %016x %016x\n"

// headSize is the length of every head.
const headSize = 1 + 1 + 19 + 3*17 + 1

func head(b []byte, is container.Rest, since time.Time, h container.Holds) []byte {
	b = decimal(append(b, byte(is), ' '), since.UnixNano())
	for _, bytes := range []int64{h.Allocated, h.Resident, h.Context} {
		var big [8]byte
		binary.BigEndian.PutUint64(big[:], uint64(max(bytes, 0)))
		b = hex.AppendEncode(append(b, ' '), big[:])
	}
	return append(b, '\n')
}

// decimal appends a number with zeros before it; there are no negative ones.
func decimal(b []byte, n int64) []byte {
	var digits [19]byte
	n = max(n, 0)
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = '0' + byte(n%10)
		n /= 10
	}
	return append(b, digits[:]...)
}

// headline is the first line of a note's file, shared with the system: what is
// stored there is in the file, whatever becomes of this process, and takes no
// call.
type headline struct {
	page []byte
	// What stands there behind the letter. Zero: something else.
	since time.Time
	holds container.Holds
}

// exact is how exactly a note says since when a container rests. One that is
// used again and again has no more than its letter changed.
const exact = time.Second

// errGone is what a line answers whose file was cut, or whose disk is full where
// it must have more room to be changed.
var errGone = errors.New("file of the note cannot be changed")

func newHeadline(f *os.File) (*headline, error) {
	page, err := syscall.Mmap(int(f.Fd()), 0, headSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map note: %w", err)
	}
	return &headline{page: page}, nil
}

// write changes the line. Until all of it is there it says that the container is
// at work, and that is what a death in the midst of it leaves.
func (h *headline) write(is container.Rest, since time.Time, holds container.Holds) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			err = errGone
		}
	}()
	switch later := since.Sub(h.since); {
	case is == container.Busy: // what else stands there is of no use then
	case holds == h.holds && later >= 0 && later < exact:
	default:
		h.letter(byte(container.Busy))
		var text [headSize]byte
		copy(h.page[1:], head(text[:0], is, since, holds)[1:])
		h.since, h.holds = since, holds
	}
	h.letter(byte(is))
	return nil
}

// letter stores the first byte. It is a call of its own, or the compiler might
// leave the first of two stores out.
//
//go:noinline
func (h *headline) letter(c byte) { h.page[0] = c }

func (h *headline) close() error { return syscall.Munmap(h.page) }
