package shimctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// The frames are described in shim/src/agent/frame.h.
const (
	version    = 2
	headerSize = 16
	frameMax   = 256
)

type frameType uint16

const (
	typeHello    frameType = 1
	typeLimit    frameType = 2
	typePrefetch frameType = 3
	typeEvict    frameType = 4
	typeReport   frameType = 5
	typeGate     frameType = 6
	typePing     frameType = 7
	typeArena    frameType = 8
	typeAccepted frameType = 16
	typeDone     frameType = 17
	typeUsage    frameType = 18
	typePong     frameType = 19
	typeRefused  frameType = 20
	typeWant     frameType = 21
)

// backendVMM is the number in a hello of the backend that keeps swapped memory in the arena.
const backendVMM = 2

var errFrame = errors.New("malformed frame")

// frame is one frame from a shim. Its type decides which payload there is; numbers are
// as they came.
type frame struct {
	kind  frameType
	epoch uint64
	hello helloFrame
	done  doneFrame
	usage usageFrame
	// refused is a sign that managed memory does not work for this program.
	refused Refusal
}

// The payloads, field by field as they are sent.
type (
	helloFrame struct{ Version, PID, Backend, Hooks uint32 }

	doneFrame struct {
		Command                   uint32
		Status, Code              int32
		_                         uint32
		Moved, Nanoseconds, Still uint64
	}

	usageFrame struct {
		Contexts                                   uint32
		_                                          uint32
		Allocated, Resident, Fixed, Pinned, Blocks uint64
		Managed, Listed                            uint64 // older shims leave them out
	}
)

// readFrame reads one frame. buf must have frameMax bytes.
func readFrame(r io.Reader, buf []byte) (frame, error) {
	if _, err := io.ReadFull(r, buf[:headerSize]); err != nil {
		return frame{}, err
	}
	n := binary.LittleEndian.Uint32(buf)
	if n < headerSize || n > frameMax {
		return frame{}, fmt.Errorf("%w: %d bytes long", errFrame, n)
	}
	if _, err := io.ReadFull(r, buf[headerSize:n]); err != nil {
		return frame{}, err
	}
	return decode(buf[:n])
}

// decode reads a whole frame. Unknown types are passed on without their
// payload: a newer shim may send more.
func decode(b []byte) (frame, error) {
	if len(b) < headerSize || int(binary.LittleEndian.Uint32(b)) != len(b) {
		return frame{}, fmt.Errorf("%w: %d bytes", errFrame, len(b))
	}
	f := frame{
		kind:  frameType(binary.LittleEndian.Uint16(b[4:])),
		epoch: binary.LittleEndian.Uint64(b[8:]),
	}
	var payload any
	switch f.kind {
	case typeHello:
		payload = &f.hello
	case typeDone:
		payload = &f.done
	case typeUsage:
		payload = &f.usage
	case typeRefused:
		payload = &f.refused
	default:
		return f, nil
	}
	fields := b[headerSize:]
	if f.kind == typeUsage {
		fields = completeUsage(fields)
	}
	if _, err := binary.Decode(fields, binary.LittleEndian, payload); err != nil {
		return frame{}, fmt.Errorf("%w: type %d with %d bytes", errFrame, f.kind, len(b))
	}
	return f, nil
}

// completeUsage adds the fields that the shims of older libraries leave out of a USAGE. All
// memory that such a shim moves is managed, and the driver lists the rest.
func completeUsage(fields []byte) []byte {
	const allocated, fixed, old = 8, 24, 48
	if len(fields) != old {
		return fields
	}
	all, listed := binary.LittleEndian.Uint64(fields[allocated:]), binary.LittleEndian.Uint64(fields[fixed:])
	fields = binary.LittleEndian.AppendUint64(slices.Clip(fields), all-min(listed, all))
	return binary.LittleEndian.AppendUint64(fields, listed)
}

// encode makes a frame whose payload is so many numbers of 64 bits. Fields of
// 32 bits go in pairs, the first in the low half.
func encode(kind frameType, epoch uint64, payload ...uint64) []byte {
	b := make([]byte, headerSize, headerSize+8*len(payload))
	binary.LittleEndian.PutUint32(b, uint32(headerSize+8*len(payload)))
	binary.LittleEndian.PutUint16(b[4:], uint16(kind))
	binary.LittleEndian.PutUint64(b[8:], epoch)
	for _, v := range payload {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// capped limits a received number to a value that is safe to compute with. A negative size
// arrives as a huge one.
func capped(v uint64, most int64) int64 {
	return int64(min(v, uint64(most)))
}

// Sign is how a process showed that its libraries do not work with managed memory.
type Sign uint32

// The signs of shim/src/migration/refusal.h.
const (
	// RefusedAlloc: managed memory was refused where plain memory was given.
	RefusedAlloc Sign = 1
	// RefusedMove: a kernel failed with an illegal or unknown error after memory
	// was moved.
	RefusedMove Sign = 2
	// RefusedShare: managed memory cannot be given to another process or device.
	RefusedShare Sign = 3
	// RefusedUnmoved: a kernel failed with such an error and nothing was moved. It may
	// be the program's own. Under a shim that only counts, it is.
	RefusedUnmoved Sign = 4
)

// Refusal is a sign and the driver's code that went with it.
type Refusal struct {
	Sign Sign
	Code int32
}

// String is the reason as operators and authors read it.
func (r Refusal) String() string {
	what := "it showed a sign of an unknown kind"
	switch r.Sign {
	case RefusedAlloc:
		what = "managed memory was refused where plain memory was given"
	case RefusedMove:
		what = "a kernel failed after its memory was moved"
	case RefusedShare:
		what = "it shares its memory with another process, which managed memory does not allow"
	case RefusedUnmoved:
		what = "a kernel failed before any of its memory was moved"
	}
	return fmt.Sprintf("%s (CUDA error %d)", what, r.Code)
}
