package shimctl

import (
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/gpu"
)

// A container's limit is divided among its processes: their grants together never exceed the
// limit. A single process is granted the whole limit. A process that wants more than its grant
// asks. The grants of the others are then lowered to their present memory, the others confirm
// this by a usage report, and the asking process is granted the rest. So processes that
// allocate at the same time are refused the excess, and none is ended.

// limits are sizes in bytes: of device memory, and of pinned host memory. As a limit
// 0 is none.
type limits struct{ device, host int64 }

// with combines two, size by size.
func (l limits) with(o limits, f func(a, b int64) int64) limits {
	return limits{f(l.device, o.device), f(l.host, o.host)}
}

func sum(a, b int64) int64     { return min(a+b, maxBytes) }
func greater(a, b int64) int64 { return max(a, b) }
func lesser(a, b int64) int64  { return min(a, b) }

// remaining returns the part of a limit that the others leave. The result is at least 1,
// because 0 would mean no limit.
func remaining(limit, others int64) int64 {
	if limit == 0 {
		return 0
	}
	return max(limit-others, 1)
}

// granted returns the part of a grant that a process keeps if the given part of the limit is
// available besides the memory of the others.
func granted(grant, available int64) int64 {
	if grant == 0 || available == 0 {
		return available
	}
	return min(grant, available)
}

// account is a process' share of its container's limit.
type account struct {
	used  limits // by its last usage
	grant limits // the process may hold this much without a question
	most  limits // the largest grant whose loss the process has not confirmed
	sent  [2]limits
	// since when most is more than grant; zero: it is not
	lowered time.Time
}

// readTime is the time for a process to read a lower limit. Memory that it takes within this
// time was granted. If a process does not answer, another process that waits for its memory
// asks eight times, half a second each, and then gets the memory.
const readTime = 3 * time.Second

// bound is the most that a process holds or may come to hold.
func (a account) bound() limits { return a.most.with(a.used, possible) }

// possible is the most that may come to be used by a grant. A grant of 1 is one of
// nothing, where 0 would be no limit: the rest is the others' to the last byte, and who
// takes that byte all the same is not worth a refusal of theirs.
func possible(grant, used int64) int64 {
	if grant == 1 {
		return used
	}
	return max(grant, used)
}

// lower ends a grant that was taken back and that the process has had the time to give
// up.
func (a *account) lower(now time.Time) {
	switch {
	case a.most == a.grant:
		a.lowered = time.Time{}
	case a.lowered.IsZero():
		a.lowered = now
	case now.Sub(a.lowered) > readTime:
		a.most = a.grant.with(a.most.with(a.used, lesser), greater)
		a.lowered = time.Time{}
	}
}

// Limit sets the bytes of device memory and of pinned host memory that the container's
// processes may hold together, including processes that connect later; 0 means no limit.
func (c *Container) Limit(device, host int64) { c.Grant(device, device, host) }

// Grant sets the same limits when others may come to hold a part of the device's memory: the
// processes hold at most granted bytes until Events.Wants was called for them.
func (c *Container) Grant(granted, device, host int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limited, c.limit = true, limits{max(device, 0), max(host, 0)}
	before := c.grant
	c.grant = limits{min(max(granted, 1), c.limit.device), c.limit.host} // 0 would be no limit
	if len(c.processes) > 1 && (c.grant.device < before.device || c.grant.host < before.host) {
		for _, p := range c.processes {
			p.cut()
		}
	}
	c.share()
}

// cut lowers a process' grant to its present memory. The caller must hold mu.
func (p *process) cut() {
	p.grant = p.grant.with(p.used.with(limits{1, 1}, greater), granted)
}

// Bound returns the most device memory that the container's processes hold or may come to hold
// by their grants. Memory that they are still given time to release does not count.
func (c *Container) Bound() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, p := range c.processes {
		p.lower(now)
	}
	return possible(c.grant.device, c.others(nil, account.bound).device)
}

// others sums up the accounts of all processes but one, including disconnected processes that
// are alive. The caller must hold mu.
func (c *Container) others(p *process, of func(account) limits) (all limits) {
	for _, in := range []map[int]*process{c.processes, c.disconnected} {
		for _, o := range in {
			if o != p {
				all = all.with(of(o.account), sum)
			}
		}
	}
	return all
}

// share sends every process its grant and the rest of the limit, if they have changed. The
// caller must hold mu.
func (c *Container) share() {
	for _, p := range c.processes {
		c.sendLimit(p, 0)
	}
}

// sendLimit sends a process its grant and the rest of the limit, if they have changed or
// answer the process' question. The caller must hold mu.
func (c *Container) sendLimit(p *process, question uint64) {
	used := c.others(p, func(a account) limits { return a.used })
	grant, available := c.grant.with(used, remaining), c.limit.with(used, remaining)
	if len(c.processes)+len(c.disconnected) == 1 {
		p.grant = grant
	}
	p.grant = p.grant.with(grant, granted)
	p.most = p.most.with(p.grant, greater)
	p.lower(time.Now())
	if now := [2]limits{p.grant, available}; c.limited && (now != p.sent || question != 0) {
		p.sent = now
		p.send(encode(typeLimit, question,
			uint64(p.grant.device), uint64(p.grant.host), uint64(available.device), uint64(available.host)))
	}
}

// enters grants a newly connected process the memory that no other process may come to hold. A
// process that was disconnected keeps its memory. The caller must hold mu.
func (c *Container) enters(p, before *process) {
	if before != nil {
		p.account = before.account
	} else {
		p.grant = c.grant.with(c.others(p, account.bound), remaining)
	}
	p.sent = [2]limits{{-1, -1}}
	c.sendLimit(p, 0)
}

// holds stores a process' report.
func (c *Container) holds(p *process, u gpu.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.lower(time.Now())
	p.used = limits{u.Allocated, u.Pinned}
	if len(c.processes) > 1 {
		c.share()
	}
}

// question is a process' request to hold more than its grant.
type question struct {
	p      *process
	number uint64
}

// answerTime is how long an answer to it waits for the other processes, of which one
// may be in the middle of a move.
const answerTime = 500 * time.Millisecond

// wants takes a process's question. One is answered after the other.
func (c *Container) wants(p *process, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.questions {
		if i > 0 && c.questions[i].p == p {
			c.questions[i].number = number
			return
		}
	}
	if c.questions = append(c.questions, question{p, number}); len(c.questions) == 1 {
		c.consider()
	}
}

// dropQuestions drops the questions of a process that has hung up, except the one being
// answered. The caller must hold mu.
func (c *Container) dropQuestions(p *process) {
	if len(c.questions) > 1 {
		rest := slices.DeleteFunc(c.questions[1:], func(q question) bool { return q.p == p })
		c.questions = c.questions[:1+len(rest)]
	}
}

// consider makes the other processes confirm their memory, for the first question. The caller
// must hold mu.
func (c *Container) consider() {
	asker := c.questions[0].p
	r, token := c.newReport()
	for _, p := range c.processes {
		if p != asker && !p.silent {
			p.cut()
			c.sendLimit(p, 0)
			r.wait(p)
			p.send(encode(typeReport, token))
		}
	}
	if len(r.waiting) == 0 {
		r.end(nil)
	}
	c.work.Go(func() { c.answer(r, token) })
}

// answer grants the first question's process the memory that the others do not hold.
func (c *Container) answer(r *round, token uint64) {
	timer := time.NewTimer(answerTime)
	defer timer.Stop()
	select {
	case <-r.ended:
	case <-timer.C:
	}
	c.mu.Lock()
	delete(c.reports, token)
	part := c.grant.device < c.limit.device && !c.closed
	c.mu.Unlock()
	if part {
		c.ctl.events.Wants(c.id)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.questions[0]
	if c.questions = c.questions[1:]; c.closed {
		return
	}
	if c.processes[q.p.pid] == q.p {
		q.p.grant = c.grant.with(c.others(q.p, account.bound), remaining)
		c.sendLimit(q.p, q.number)
	}
	if len(c.questions) > 0 {
		c.consider()
	}
}
