package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Benchmarks of the hot path. The peer answers with a fixed text as fast as possible, so
// the time is that of the client and the loopback.

// echoPeer reads requests of a known length and answers each with {}. It returns its
// address.
func echoPeer(b *testing.B, size int) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				r := bufio.NewReaderSize(c, 64<<10)
				text := []byte(ok("{}"))
				for {
					for {
						line, err := r.ReadSlice('\n')
						if err != nil {
							return
						}
						if len(line) <= 2 {
							break
						}
					}
					if _, err := r.Discard(size); err != nil {
						return
					}
					if _, err := c.Write(text); err != nil {
						return
					}
				}
			})
		}
	})
	b.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func benchBody(size int) []byte { return []byte(strings.Repeat("x", size)) }

func BenchmarkRun(b *testing.B) {
	for name, size := range map[string]int{"512B": 512, "64KiB": 64 << 10} {
		b.Run(name, func(b *testing.B) {
			c := New(echoPeer(b, size), 1)
			b.Cleanup(c.Close)
			body := benchBody(size)
			b.ReportAllocs()
			for b.Loop() {
				if x := c.Run(b.Context(), body, time.Minute, wide); !x.OK() {
					b.Fatal(x.Err)
				}
			}
		})
	}
}

// BenchmarkFloor measures a write and a read on a connection without a client, as the
// lower bound.
func BenchmarkFloor(b *testing.B) {
	const size = 512
	c, err := net.Dial("tcp", echoPeer(b, size))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	text := append([]byte("POST /run HTTP/1.1\r\n\r\n"), benchBody(size)...)
	answer := make([]byte, len(ok("{}")))
	for b.Loop() {
		if _, err := c.Write(text); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, answer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBodies(b *testing.B) {
	m := message(`{"a":1,"b":"text"}`)
	b.ReportAllocs()
	for b.Loop() {
		v, err := NewInvocation(m, m.Content, true)
		if err != nil {
			b.Fatal(err)
		}
		v.RunBody(time.UnixMilli(deadline))
	}
}

func BenchmarkRunOutcome(b *testing.B) {
	x := answered(answer{Status: 200, Body: `{"payload":"Hello x","n":[1,2,3]}`})
	b.ReportAllocs()
	for b.Loop() {
		if r := RunOutcome(x, time.Minute, false); r.StatusCode != 0 {
			b.Fatal(r)
		}
	}
}
