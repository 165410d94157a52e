package invoker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/explain"
)

// pending stands for one accepted activation. Exactly one completion leaves it,
// whatever fails: its stage allows each thing once (see moves), and the code that
// holds a pending activation either hands it on or completes it (see Invoker.guard). An
// early result may go before.
//
// The message is done at the feed when everything that left the pending activation is
// safe: each ack at the broker, the record in the store. The count of what is
// still loose starts at one, for the completion itself.
type pending struct {
	*activation.Message
	offset    int64
	accepted  time.Duration
	begin     func() // nil: not asked for
	begun     bool   // in an earlier process, which did not end it
	attempts  int    // processes that died while it ran
	done      func()
	unlisted  bool // the journal keeps nothing of it
	completer *completer
	trace     *explain.Trace // nil where none is kept
	permit    permit
	age       aged // guarded by completer.old
	loose     atomic.Int32
	unsent    atomic.Int32 // acks among what is loose
	gone      atomic.Bool  // the feed has let go of it

	mu     sync.Mutex
	stage  stage
	ending ending // from isAnswered on
}

// stage is how far a pending activation has come.
type stage uint8

const (
	nowhere    stage = iota // where a move that is not allowed leads
	isAccepted              // nothing has left it
	isResulted              // who waits has the result
	isAnswered              // controllers know how it ended and that its slot is free
	isFiled                 // the record is handed on and the place at the feed given back: the end
	isPassing               // it is on its way to another invoker
	isPassed                // another invoker has it and answers: the end
	isSpilled               // the spill has it, and a new pending activation follows: the end
)

// move is what may happen to a pending activation.
type move uint8

const (
	sendResult     move = iota // to a caller that waits
	sendCompletion             // to the controller
	sendRecord                 // hand the record on, give the place back
	sendOn                     // to another invoker
	sentOn                     // the broker has it for the other invoker
	sentBack                   // the broker will not have it
	setAside                   // the spill has the message
	nMoves
)

// moves is where each move leads from each stage. What is not here does
// nothing: that is how an activation is completed once, however often it is tried.
var moves = [...][nMoves]stage{
	isAccepted: {sendResult: isResulted, sendCompletion: isAnswered, sendOn: isPassing, setAside: isSpilled},
	isResulted: {sendCompletion: isAnswered},
	isAnswered: {sendRecord: isFiled},
	isFiled:    {},
	isPassing:  {sentOn: isPassed, sentBack: isAccepted},
	isPassed:   {},
	isSpilled:  {},
}

// take makes a move, and reports whether it was allowed.
func (p *pending) take(m move) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.step(m)
	return ok
}

// step is take for callers that hold the lock; it returns from where the move went.
func (p *pending) step(m move) (from stage, ok bool) {
	from = p.stage
	to := moves[from][m]
	if to == nowhere {
		return from, false
	}
	p.stage = to
	return from, true
}

// open reports whether nothing has left the pending activation.
func (p *pending) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage == isAccepted
}

// filed reports whether the pending activation has come to its end here.
func (p *pending) filed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stage == isFiled
}

func newPending(c *completer, del Delivery, now time.Duration) *pending {
	p := &pending{
		Message: del.Message, offset: del.Offset, accepted: now, begin: del.Begin, done: del.Done,
		begun: del.Begun, attempts: del.Attempts, unlisted: del.Unlisted, completer: c, stage: isAccepted,
	}
	p.loose.Store(1)
	return p
}

// started informs the feed and the journal that the activation begins to run. With
// an error it must not: ctx has ended.
func (p *pending) started(ctx context.Context) error {
	if !p.unlisted {
		if err := p.completer.journal.Begin(ctx, p.ActivationID); err != nil {
			return err
		}
	}
	if p.begin != nil {
		p.begin()
	}
	return nil
}

// settle takes one loose thing off; after the last one the feed may forget the
// message.
func (p *pending) settle() {
	if p.loose.Add(-1) == 0 {
		p.completer.unacknowledged.remove(p)
		p.completer.observers.notify(onSettled{p})
		if !p.unlisted {
			p.completer.journal.Completed(p.ActivationID)
		}
		p.completer.aging.remove(p)
		p.letGo()
	}
}

// letGo has the feed forget the message, once.
func (p *pending) letGo() {
	if !p.gone.Swap(true) {
		p.done()
	}
}
