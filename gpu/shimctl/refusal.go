package shimctl

import "fmt"

// Sign is how a process showed that its libraries do not bear managed memory.
type Sign uint32

// The signs of shim/src/refusal.h.
const (
	// RefusedAlloc: managed memory was refused where plain memory was given.
	RefusedAlloc Sign = 1
	// RefusedMove: a kernel failed with an illegal or unknown error after memory
	// was moved.
	RefusedMove Sign = 2
	// RefusedShare: managed memory cannot be given to another process or device.
	RefusedShare Sign = 3
)

// Refusal is a sign and the driver's code that went with it.
type Refusal struct {
	Sign Sign
	Code int
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
	}
	return fmt.Sprintf("%s (CUDA error %d)", what, r.Code)
}
