package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair gives both ends of a connection, of which one is quick.
func pair(t testing.TB) (quick net.Conn, other *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	o, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); o.Close() })
	return Quick(c), o.(*net.TCPConn)
}

// TestWhatIsSentArrives, in both directions at once, also when it is more than
// the system takes at a time.
func TestWhatIsSentArrives(t *testing.T) {
	c, o := pair(t)
	want := bytes.Repeat([]byte("abcdefg"), 1<<20)
	back := make(chan error, 1)
	go func() {
		_, err := io.Copy(o, io.LimitReader(o, int64(len(want))))
		back <- errors.Join(err, o.CloseWrite())
	}()
	sent := make(chan error, 1)
	go func() {
		n, err := c.Write(want)
		if n != len(want) && err == nil {
			err = io.ErrShortWrite
		}
		sent <- err
	}()
	got, err := io.ReadAll(c) // which needs the end to be told as one
	if err := errors.Join(err, <-sent, <-back); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes came back", len(got), len(want))
	}
}

// TestWhatIsCopiedArrives, from a source that writes itself and one that does not.
func TestWhatIsCopiedArrives(t *testing.T) {
	want := bytes.Repeat([]byte("abcdefg"), 1<<18)
	for _, from := range []io.Reader{bytes.NewReader(want), struct{ io.Reader }{bytes.NewReader(want)}} {
		c, o := pair(t)
		came := make(chan []byte, 1)
		go func() {
			got, _ := io.ReadAll(o)
			came <- got
		}()
		n, err := io.Copy(c, from)
		if n != int64(len(want)) || err != nil {
			t.Errorf("copied %d bytes, %v", n, err)
		}
		c.Close()
		if got := <-came; !bytes.Equal(got, want) {
			t.Errorf("%d of %d bytes came", len(got), len(want))
		}
	}
}

// TestEndsAreToldAsByNet: deadlines, a close on either side, a reset.
func TestEndsAreToldAsByNet(t *testing.T) {
	buf := make([]byte, 10)
	c, _ := pair(t)
	_ = c.SetDeadline(time.Now().Add(time.Millisecond))
	var late net.Error
	if _, err := c.Read(buf); !errors.As(err, &late) || !late.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("late: %v", err)
	}
	if _, err := c.Write(buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("late: %v", err)
	}
	_ = c.SetDeadline(time.Time{})
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(buf)
		read <- err
	}()
	c.Close()
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	c, o := pair(t)
	_ = o.SetLinger(0)
	o.Close()
	if _, err := c.Read(buf); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reset: %v", err)
	}
	if _, err := c.Write(buf); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("written after the reset: %v", err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
}

// TestRests: a connection rests until something arrives, also its end.
func TestRests(t *testing.T) {
	c, o := pair(t)
	if !Rests(c) {
		t.Error("a fresh connection does not rest")
	}
	if Rests(o) {
		t.Error("knows of a connection that is not a quick one")
	}
	if _, err := o.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	arrived(t, c)
	if Rests(c) {
		t.Error("rests with something to be read")
	}
	b := make([]byte, 2)
	if n, err := c.Read(b); n != 1 || b[0] != 'x' || err != nil {
		t.Fatalf("read %q, %v", b[:n], err)
	}
	if !Rests(c) {
		t.Error("does not rest after all was read")
	}
	o.Close()
	arrived(t, c)
	if Rests(c) {
		t.Error("rests at its end")
	}
	c.Close()
	if Rests(c) {
		t.Error("rests when closed")
	}
}

// arrived waits until there is something to be read, or the end.
func arrived(t *testing.T, c net.Conn) {
	t.Helper()
	err := c.(*conn).raw.Read(func(fd uintptr) bool { return !nothing(fd) })
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	c, o := pair(t)
	buf := make([]byte, 100)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = o.Write(buf)
		_, _ = io.ReadFull(c, buf)
		_, _ = c.Write(buf)
		_, _ = io.ReadFull(o, buf)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestOtherConnectionsStay(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if Quick(a) != a {
		t.Error("a pipe is another connection")
	}
}
