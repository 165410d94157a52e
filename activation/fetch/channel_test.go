package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/fetch/activationpb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// plain is a codec that passes messages unchanged.
type plain struct{}

func (plain) Name() string { return "plain" }
func (plain) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (plain) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = plain{}

// TestWireForm reads the bytes of a fetch by the field numbers of schedulers.
func TestWireForm(t *testing.T) {
	l, at := listen(t)
	var path string
	var sent []byte
	s := grpc.NewServer(grpc.ForceServerCodecV2(plain{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		path, _ = grpc.MethodFromServerStream(stream)
		if err := stream.RecvMsg(&sent); err != nil {
			return err
		}
		text := activation.FetchAnswer{Kind: activation.NoActivation}.Encode()
		answer := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), text)
		return stream.SendMsg(&answer)
	}))
	go s.Serve(l)
	defer s.Stop()
	d := 1500 * time.Millisecond
	_, err := client(t, Config{}).Fetch(t.Context(), at, activation.FetchRequest{Queue: hello, Container: "9f0e", Warmed: true, LastDuration: &d})
	check.NoError(t, err)
	check.Equal(t, path, "/activation.ActivationService/FetchActivation")
	got := map[protowire.Number]string{}
	for len(sent) > 0 {
		number, kind, n := protowire.ConsumeTag(sent)
		sent = sent[n:]
		if kind == protowire.VarintType {
			v, n := protowire.ConsumeVarint(sent)
			got[number], sent = fmt.Sprint(v), sent[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(sent)
		got[number], sent = string(v), sent[n:]
	}
	_, err = activation.ParseTransID([]byte(got[1]))
	check.NoError(t, err, "the transaction is %s", got[1])
	check.AtLeast(t, len(got[1]), len(`["",1]`)+32, "the transaction is %s", got[1])
	delete(got, 1)
	want := map[protowire.Number]string{
		2: "guest", 3: `{"name":"hello","path":"guest","version":"0.0.3"}`, 4: `"5-3f"`, 5: "9f0e", 6: "1", 7: "\x08\xdc\x0b", 8: "1",
	}
	for number, text := range want {
		check.Equal(t, got[number], text, "field %d", number)
	}
	check.Equal(t, len(got), len(want), "fields are %v, want %v", got, want)
}

// TestCallsSpreadOverChannels: a scheduler's server limits the streams on one
// connection, and each waiting call is a stream.
func TestCallsSpreadOverChannels(t *testing.T) {
	const calls = 2*callsPerChannel + 1
	var open sync.WaitGroup
	open.Add(calls)
	end := make(chan bool)
	f := &fake{fetch: func(ctx context.Context, r *activationpb.FetchRequest) (*activationpb.FetchResponse, error) {
		open.Done()
		<-end
		return answers(activation.FetchAnswer{Kind: activation.NoActivation})(ctx, r)
	}}
	l, at := serve(t, f)
	c := client(t, Config{})
	done := make(chan error)
	for range calls {
		go func() {
			_, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello, Container: "c"})
			done <- err
		}()
	}
	open.Wait()
	check.Equal(t, l.accepted(), 3)
	states := c.States()
	check.Equal(check.Must(t), len(states), 1)
	check.Equal(t, states[0].Calls, calls)
	check.Equal(t, states[0].Channels, 3)
	c.Retain(nil) // the scheduler leaves the cluster; its calls continue
	close(end)
	for range calls {
		check.NoError(t, check.Receive(t, done))
	}
	check.Equal(t, len(c.States()), 0, "it is not forgotten")
}

// TestRetainKeepsWhatIsListed: listed schedulers stay, including those that were
// called since the listing.
func TestRetainKeepsWhatIsListed(t *testing.T) {
	_, at := serve(t, &fake{fetch: answers(activation.FetchAnswer{Kind: activation.NoActivation})})
	_, other := serve(t, &fake{fetch: answers(activation.FetchAnswer{Kind: activation.NoActivation})})
	c := client(t, Config{})
	for _, e := range []activation.Endpoint{at, other} {
		_, err := c.Fetch(t.Context(), e, activation.FetchRequest{Queue: hello})
		check.NoError(t, err)
	}
	c.Retain([]activation.Endpoint{at})
	states := c.States()
	check.Equal(check.Must(t), len(states), 1)
	check.Equal(t, states[0].Scheduler, address(at))
	_, err := c.Fetch(t.Context(), other, activation.FetchRequest{Queue: hello})
	check.NoError(t, err, "called again")
}

// TestCallsAreTriedOnce: gRPC does not repeat a call when a scheduler reports that it
// did not begin it.
func TestCallsAreTriedOnce(t *testing.T) {
	l, at := listen(t)
	calls := make(chan int, 1)
	go func() {
		n := 0
		defer func() { calls <- n }()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		framer := http2.NewFramer(conn, conn)
		framer.WriteSettings()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					framer.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				n++
				framer.WriteRSTStream(frame.StreamID, http2.ErrCodeRefusedStream)
			}
		}
	}()
	c := client(t, Config{})
	_, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello})
	check.That(check.Must(t), err != nil, "got %v", err)
	check.That(t, !errors.Is(err, ErrRejected), "got %v", err)
	c.Close()
	check.Equal(t, check.Receive(t, calls), 1)
}

// TestSchedulerRestarts: calls fail while a scheduler is down, and the same client
// works again once the scheduler is back.
func TestSchedulerRestarts(t *testing.T) {
	c := client(t, Config{})
	f := &fake{fetch: answers(activation.FetchAnswer{Kind: activation.NoActivation})}
	l, at := listen(t)
	run := func(l net.Listener) *grpc.Server {
		s := grpc.NewServer()
		activationpb.RegisterActivationServiceServer(s, f)
		go s.Serve(l)
		return s
	}
	fetch := func() string {
		if _, err := c.Fetch(t.Context(), at, activation.FetchRequest{Queue: hello}); err != nil {
			return err.Error()
		}
		return ""
	}
	s := run(l)
	check.Equal(check.Must(t), fetch(), "")
	s.Stop()
	check.That(t, fetch() != "", "without a scheduler it answers")
	again, err := net.Listen("tcp", address(at))
	if err != nil {
		t.Skip("another has the port: ", err)
	}
	s = run(again)
	defer s.Stop()
	peertest.Until(t, "calls of the scheduler that is back", fetch)
}

// TestDeadPeerEndsCalls: calls to a machine that vanished silently end by the
// keep-alive, before their limit.
func TestDeadPeerEndsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 16)
		c := client(t, Config{dial: func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }})
		defer l.Close()
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			framer := http2.NewFramer(conn, conn)
			framer.WriteSettings() // the peer's last message
			io.Copy(io.Discard, conn)
		}()
		begun := time.Now()
		_, err := c.Fetch(t.Context(), activation.Endpoint{Host: "h", Port: 1}, activation.FetchRequest{Queue: hello})
		check.That(t, err != nil, "it answers")
		took := time.Since(begun)
		check.AtLeast(t, took, 10*time.Second)
		check.Less(t, took, fetchLimit)
		c.Close()
	})
}
