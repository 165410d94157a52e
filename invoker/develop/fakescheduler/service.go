package fakescheduler

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch/activationpb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/fakescheduler/memoryqueue"
)

// FetchActivation answers a container's call. An activation has left its queue by
// then, whether the answer arrives or not.
func (s *Scheduler) FetchActivation(ctx context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
	asked, err := activation.ParseQueue(r.GetInvocationNamespace(), []byte(r.GetFqn()), []byte(r.GetRev()))
	if err != nil {
		return nil, status.Error(codes.Internal, "")
	}
	got := make(chan activation.FetchAnswer, 1) // the queue must not wait
	call := memoryqueue.Call{
		Action: asked.Action, Container: r.GetContainerId(), Warmed: r.GetWarmed(), Alive: r.GetAlive(),
		Answer: func(a activation.FetchAnswer) { got <- a },
	}
	if d := r.GetLastDuration(); d != nil {
		took := time.Duration(d.GetValue()) * time.Millisecond
		call.LastDuration = &took
	}
	if asked.Action == activation.WarmUpQueue().Action {
		got <- activation.FetchAnswer{Kind: activation.NoActivation}
	} else if !s.fetch(asked, call, r.GetTransactionId()) {
		return nil, status.Error(codes.Internal, "")
	}
	a := <-got
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Fetches[a.Kind]++
	if a.Kind == activation.Fetched && ctx.Err() != nil {
		s.seen.Lost++
	}
	s.happened()
	return &activationpb.FetchResponse{ActivationMessage: string(a.Encode())}, nil
}

// fetch gives a call to its queue. Only a queue that is found minds what transaction it is.
func (s *Scheduler) fetch(asked activation.Queue, call memoryqueue.Call, transaction string) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[Function{Queue: asked}.id()]
	switch {
	case q == nil || s.ctx.Err() != nil:
		call.Answer(activation.FetchAnswer{Kind: activation.NoQueue})
	case asked.Revision != q.Function.Queue.Revision:
		// A queue of an older revision is found by nothing any more.
		call.Answer(activation.FetchAnswer{Kind: activation.ActionMismatch})
	default:
		if _, err := activation.ParseTransID([]byte(transaction)); err != nil {
			return false
		}
		q.Fetch(time.Now(), call)
		s.happened()
	}
	return true
}

// RescheduleActivation puts an activation at the end of its queue.
func (s *Scheduler) RescheduleActivation(_ context.Context, r *activationpb.RescheduleRequest) (*activationpb.RescheduleResponse, error) {
	asked, err := activation.ParseQueue(r.GetInvocationNamespace(), []byte(r.GetFqn()), []byte(r.GetRev()))
	if err != nil {
		return nil, status.Error(codes.Internal, "")
	}
	m, err := activation.DecodeMessage([]byte(r.GetActivationMessage()))
	if err != nil {
		return nil, status.Error(codes.Internal, "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[Function{Queue: asked}.id()]
	if q == nil || asked.Revision != q.Function.Queue.Revision || q.State() == memoryqueue.Removed {
		return &activationpb.RescheduleResponse{}, nil
	}
	s.seen.Rescheduled++
	s.add(q, m)
	return &activationpb.RescheduleResponse{IsRescheduled: true}, nil
}
