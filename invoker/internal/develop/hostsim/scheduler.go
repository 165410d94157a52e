package hostsim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/pull/slot"
)

const (
	decideEvery = 100 * time.Millisecond
	jobTime     = 20 * time.Second
	mostRetries = 5
)

// queue is the scheduler's queue of one function.
type queue struct {
	*memoryqueue.Queue
	function activation.Queue
	existing int // containers with keys, over all hosts
}

// job is a creation without a final answer.
type job struct {
	id    string
	of    int
	retry int
	claim key
}

// key is a warmed key.
type key struct {
	function, host int
	name           string
}

func (s *simulation) newQueue(n int) *queue {
	f := s.cfg.Workload.Functions[n]
	q := &queue{function: activation.NewQueue("guest", activation.ActionRef{Path: "guest", Name: f.Name, Version: "0.0.1"}, "1-a")}
	settings := memoryqueue.Defaults()
	settings.IdleGrace = 1 << 50 // queues are never removed
	q.Queue = memoryqueue.New(clock(s.now), settings, q.function.Action, func(memoryqueue.Activation, int, string) { s.result.Failed++ })
	return q
}

func clock(d time.Duration) time.Time { return time.Unix(0, 0).Add(d) }

// arrive adds an activation to its queue.
func (s *simulation) arrive(i int) {
	c := &s.calls[i]
	for _, h := range s.hosts {
		c.idleBefore = append(c.idleBefore, h.idle)
	}
	id := strconv.Itoa(i)
	s.queues[c.Function].Add(clock(s.now), memoryqueue.Activation{ID: activation.ID(id), JSON: []byte(id)})
}

// tick makes the scheduler's decisions for all queues.
func (s *simulation) tick() {
	counts := memoryqueue.Counts{Limit: s.cfg.Limit, InProgress: len(s.jobs)}
	for _, q := range s.queues {
		counts.Existing += q.existing
	}
	for n, q := range s.queues {
		q.Tick(clock(s.now))
		if q.State() == memoryqueue.Removed {
			existing := q.existing
			s.queues[n] = s.newQueue(n)
			s.queues[n].existing = existing
			continue
		}
		for range q.Decide(clock(s.now), counts) {
			s.made++
			j := &job{id: fmt.Sprintf("%032d", s.made), of: n}
			s.jobs[j.id] = j
			counts.InProgress++
			q.CreationPut(activation.ID(j.id))
			s.after(etcdTime, func() { s.send(j) })
			s.after(jobTime, func() { s.finishJob(j, activation.CreationTimeout) })
		}
	}
	s.after(decideEvery, s.tick)
}

// send chooses a host for a job and sends the creation.
func (s *simulation) send(j *job) {
	if s.jobs[j.id] != j {
		return
	}
	to := s.random.IntN(len(s.hosts))
	for _, k := range s.warmed {
		if k.function == j.of && !s.claims[k] && !s.cfg.Random {
			s.claims[k], j.claim, to = true, k, k.host
			break
		}
	}
	s.result.Creations++
	c := slot.Creation{GPU: true, Concurrency: 1, ContainerCreation: &activation.ContainerCreation{
		ID: activation.ID(j.id), Queue: s.queues[j.of].function, Retry: j.retry,
	}}
	s.after(kafkaTime, func() { s.hosts[to].table.Create(s.now, c) })
}

// ack processes the answer to a creation.
func (s *simulation) ack(id string, failure activation.CreationError) {
	j := s.jobs[id]
	switch {
	case j == nil:
	case failure == activation.NoCreationError || j.retry >= mostRetries:
		s.finishJob(j, failure)
	default:
		s.result.Refused++
		s.release(j)
		s.after(decideEvery<<j.retry, func() { j.retry++; s.send(j) })
	}
}

func (s *simulation) finishJob(j *job, failure activation.CreationError) {
	if s.jobs[j.id] != j {
		return
	}
	s.release(j)
	delete(s.jobs, j.id)
	if q := s.queues[j.of]; failure == activation.NoCreationError {
		q.CreationSucceeded(activation.ID(j.id))
	} else {
		s.result.Refused++
		q.CreationFailed(activation.ID(j.id), failure, "")
	}
}

func (s *simulation) release(j *job) {
	delete(s.claims, j.claim)
	j.claim = key{}
}

// setWarmed adds or deletes a warmed key.
func (s *simulation) setWarmed(k key, put bool) {
	i, there := slices.BinarySearchFunc(s.warmed, k, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.function, b.function), cmp.Compare(a.host, b.host), cmp.Compare(a.name, b.name))
	})
	switch {
	case put && !there:
		s.warmed = slices.Insert(s.warmed, i, k)
	case !put && there:
		s.warmed = slices.Delete(s.warmed, i, i+1)
	}
}
