package explain

import (
	"encoding/binary"
	"encoding/hex"
	"time"
	"unique"
)

// entry is an account as the log keeps it: 10,000 of them are there for as long
// as the invoker runs. Names are shared between accounts, and forgotten with the
// last that has them; times are kept to the microsecond. What is asked for once
// a second lies open, the rest is packed.
type entry struct {
	answered      int64 // ns since 1970
	wait, latency time.Duration
	what          unique.Handle[what]
	how           unique.Handle[how]
	container     unique.Handle[string]
	refused       unique.Handle[string]
	packed        string // the id, and numbers
	failed        bool
}

// what was run; how it went, as far as that is words.
type what struct{ namespace, action, kind string }

type how struct{ start, device, hold, level, behind, company string }

func newEntry(a *Account) entry {
	words := how{start: a.Start}
	if g := a.GPU; g != nil {
		words = how{a.Start, g.Device, g.Hold, g.Level, g.Behind, g.Company}
	}
	return entry{
		answered: instant(a.Answered), wait: a.Wait(), latency: a.Latency(), failed: a.Status != 0,
		what: unique.Make(what{a.Namespace, a.Action, a.Kind}), how: unique.Make(words),
		container: unique.Make(a.Container), refused: unique.Make(a.Refused), packed: pack(a),
	}
}

// account is what was kept.
func (e *entry) account() Account {
	names, words := e.what.Value(), e.how.Value()
	a := Account{Namespace: names.namespace, Action: names.action, Kind: names.kind, Start: words.start,
		Container: e.container.Value(), Refused: e.refused.Value()}
	id, rest := unpackID(e.packed)
	a.ID = id
	c := codec{text: rest, reads: true}
	gpu := false
	c.truth(&gpu)
	if gpu {
		a.GPU = &GPU{Device: words.device, Hold: words.hold, Level: words.level, Behind: words.behind, Company: words.company}
	}
	c.visit(&a)
	return a
}

// visit goes through all that is packed of an account.
func (c *codec) visit(a *Account) {
	for _, t := range []*time.Time{&a.Accepted, &a.Sent, &a.Queued, &a.Granted, &a.Launched, &a.CreateStart, &a.InitStart, &a.InitEnd,
		&a.RunStart, &a.RunEnd, &a.LogsStart, &a.Answered, &a.Acked, &a.Stored, &a.Filed} {
		c.time(t)
	}
	c.took(&a.Create)
	c.took(&a.Logs)
	c.count(&a.Status)
	c.count(&a.Again)
	c.count(&a.Batch)
	c.truth(&a.TimedOut)
	c.truth(&a.Recorded)
	c.truth(&a.FromRecord)
	g := a.GPU
	if g == nil {
		return
	}
	c.time(&g.MoveStart)
	c.took(&g.Moved)
	c.took(&g.Lead)
	c.took(&g.Overrun)
	c.number(&g.Memory)
	for _, n := range []*int{&g.Beside, &g.CompanyRuns, &g.Own, &g.Passed, &g.PassedBy} {
		c.count(n)
	}
	c.truth(&g.Simulated)
	c.truth(&g.Alone)
}

// codec writes or reads numbers: the same calls in the same order do both. Each
// time stands as microseconds since the one before, for most follow each other
// closely.
type codec struct {
	out   []byte
	text  string
	reads bool
	last  int64
}

func (c *codec) number(n *int64) {
	if !c.reads {
		c.out = binary.AppendVarint(c.out, *n)
		return
	}
	var bits uint64
	for shift := 0; len(c.text) > 0; shift += 7 {
		b := c.text[0]
		c.text = c.text[1:]
		if bits |= uint64(b&0x7f) << shift; b < 0x80 {
			break
		}
	}
	*n = int64(bits>>1) ^ -int64(bits&1) // zigzag, as binary.AppendVarint has it
}

func (c *codec) time(t *time.Time) {
	var d int64 // 0 stands for no time
	if !c.reads {
		if !t.IsZero() {
			now := t.UnixMicro()
			if d, c.last = now-c.last, now; d >= 0 {
				d++
			}
		}
		c.number(&d)
		return
	}
	if c.number(&d); d == 0 {
		*t = time.Time{}
		return
	}
	if d > 0 {
		d--
	}
	c.last += d
	*t = time.UnixMicro(c.last)
}

func (c *codec) took(d *time.Duration) {
	n := d.Microseconds()
	if c.number(&n); c.reads {
		*d = time.Duration(n) * time.Microsecond
	}
}

func (c *codec) count(n *int) {
	wide := int64(*n)
	c.number(&wide)
	*n = int(wide)
}

func (c *codec) truth(b *bool) {
	var n int64
	if *b {
		n = 1
	}
	c.number(&n)
	*b = n != 0
}

// pack writes an id in half its length if it is what OpenWhisk's are, and the
// numbers after it.
func pack(a *Account) string {
	var space [192]byte
	c := codec{out: packID(space[:0], a.ID)}
	gpu := a.GPU != nil
	c.truth(&gpu)
	c.visit(a)
	return string(c.out)
}

const idBytes = 16

func packID(to []byte, id string) []byte {
	if len(id) == 2*idBytes {
		to = append(to, 0)
		for i := 0; i < len(id); i += 2 {
			high, low := digit(id[i]), digit(id[i+1])
			if high|low > 15 {
				break
			}
			to = append(to, high<<4|low)
		}
		if len(to) == 1+idBytes {
			return to
		}
		to = to[:0]
	}
	n := min(len(id), 255)
	return append(append(to, 1, byte(n)), id[:n]...)
}

// digit is the value of a hexadecimal one, 16 of anything else.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

func unpackID(packed string) (id, rest string) {
	if packed[0] == 0 {
		return hex.EncodeToString([]byte(packed[1 : 1+idBytes])), packed[1+idBytes:]
	}
	n := 2 + int(packed[1])
	return packed[2:n], packed[n:]
}

// instant is a time as an entry has it.
func instant(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
