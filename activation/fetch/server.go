package fetch

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch/activationpb"
)

// closeLimit limits the time that Close waits for open calls.
const closeLimit = 2 * time.Second

// Server answers fetches as a scheduler does, in a process that acts as a scheduler
// for a moment. It has a goroutine that listens, and one for each call.
type Server struct {
	activationpb.UnimplementedActivationServiceServer
	answer func(q activation.Queue, alive bool) activation.FetchAnswer
	server *grpc.Server
	done   chan struct{}
}

// Serve answers the calls to a listener, which Close closes. answer is called
// concurrently and must not block.
func Serve(l net.Listener, answer func(q activation.Queue, alive bool) activation.FetchAnswer) *Server {
	s := &Server{answer: answer, done: make(chan struct{})}
	// The original answers any number of pings.
	s.server = grpc.NewServer(grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	activationpb.RegisterActivationServiceServer(s.server, s)
	go func() {
		defer close(s.done)
		_ = s.server.Serve(l) // returns after Close
	}()
	return s
}

// FetchActivation answers the call of a container.
func (s *Server) FetchActivation(_ context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
	q, err := activation.ParseQueue(r.GetInvocationNamespace(), []byte(r.GetFqn()), []byte(r.GetRev()))
	if err != nil {
		return nil, status.Error(codes.Internal, "")
	}
	return &activationpb.FetchResponse{ActivationMessage: string(s.answer(q, r.GetAlive()).Encode())}, nil
}

// Close ends the server after its open calls are answered, or after closeLimit.
func (s *Server) Close() {
	late := time.AfterFunc(closeLimit, s.server.Stop)
	defer late.Stop()
	s.server.GracefulStop()
	<-s.done
}
