package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// frame gives one message as the daemon sends it.
func frame(kind byte, text string) []byte {
	head := make([]byte, 8)
	head[0] = kind
	binary.BigEndian.PutUint32(head[4:], uint32(len(text)))
	return append(head, text...)
}

func TestReadEntry(t *testing.T) {
	at := time.Date(2024, 6, 10, 6, 13, 20, 250e6, time.UTC)
	cases := []struct {
		name   string
		frame  []byte
		stream string
		text   string
	}{
		{"stdout", frame(1, "2024-06-10T06:13:20.250000000Z hi there\n"), "stdout", "hi there\n"},
		{"stderr", frame(2, "2024-06-10T06:13:20.250000000Z \n"), "stderr", "\n"},
		{"piece", frame(1, "2024-06-10T06:13:20.250000000Z x"), "stdout", "x"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := readEntry(bufio.NewReader(bytes.NewReader(c.frame)))
			check.NoError(t, err)
			check.That(check.Must(t), got.at.Equal(at), "got %+v, %v", got, err)
			check.Equal(t, got.stream, c.stream)
			check.Equal(t, string(got.text), c.text)
		})
	}
	for name, raw := range map[string][]byte{
		"cut head": {1, 0, 0}, "cut text": frame(1, "2024-06-10T06:13:20Z hi")[:12], "no time": frame(1, "hi\n"),
		"daemon's error": frame(3, "2024-06-10T06:13:20Z no\n"), "endless": {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		got, err := readEntry(bufio.NewReader(bytes.NewReader(raw)))
		check.That(t, err != nil, "%s: got %+v", name, got)
	}
}

func FuzzReadEntry(f *testing.F) {
	f.Add(frame(1, "2024-06-10T06:13:20.250000000Z hi\n"))
	f.Add(frame(2, ""))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := bufio.NewReader(bytes.NewReader(raw))
		for {
			e, err := readEntry(in)
			if err != nil {
				return
			}
			if e.stream != "stdout" && e.stream != "stderr" {
				t.Fatalf("got %+v", e)
			}
			if e.at.IsZero() && e.at.Year() != 1 {
				t.Fatalf("got %+v", e)
			}
		}
	})
}

// logged is the log of a container, as two generations of the daemon give it.
type logged struct {
	each  bool // leaves out each line that is too old by itself
	lines []entry
}

func (l *logged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var since time.Time
	if text := r.FormValue("since"); text != "" && text != "0" {
		seconds, nanos, _ := strings.Cut(text, ".")
		s, _ := strconv.ParseInt(seconds, 10, 64)
		n, _ := strconv.ParseInt(nanos, 10, 64)
		since = time.Unix(s, n)
	}
	lines := l.lines
	if n, err := strconv.Atoi(r.FormValue("tail")); err == nil {
		lines = lines[max(0, len(lines)-n):]
	}
	for _, e := range lines {
		if e.at.Before(since) {
			continue
		}
		if !l.each {
			since = time.Time{}
		}
		kind := byte(1)
		if e.stream == stderr {
			kind = 2
		}
		_, _ = w.Write(frame(kind, e.at.Format(time.RFC3339Nano)+" "+string(e.text)))
	}
	if r.FormValue("follow") == "1" {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

var noon = time.Date(2024, 6, 10, 12, 0, 0, 0, time.UTC)

// print adds a line that the daemon read so many milliseconds after noon.
func (l *logged) print(stream string, ms int, text string) {
	l.lines = append(l.lines, entry{at: noon.Add(time.Duration(ms) * time.Millisecond), stream: stream, text: []byte(text + "\n")})
}

func (l *logged) tail(t *testing.T) *logs.Tail {
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	api, err := client.New(client.WithHost(server.URL), client.WithAPIVersion("1.40"))
	check.NoError(t, err)
	tail := logs.NewTail(&stream{api: api, id: "x"}, enginetest.Waits())
	t.Cleanup(func() { _ = tail.Close() })
	return tail
}

func bothDaemons(t *testing.T, test func(t *testing.T, l *logged)) {
	t.Run("each line by itself", func(t *testing.T) { test(t, &logged{each: true}) })
	t.Run("from the first on", func(t *testing.T) { test(t, &logged{}) })
}

func collected(t *testing.T, tail *logs.Tail, req container.LogRequest, want ...string) {
	t.Helper()
	got := tail.Collect(t.Context(), req)
	var texts []string
	for _, line := range got.Lines {
		_, text, _ := strings.Cut(line, " ") // behind the time
		texts = append(texts, strings.TrimSpace(text))
	}
	check.Equal(t, strings.Join(texts, "|"), strings.Join(want, "|"), "got %q (incomplete: %v), want %q", texts, got.Incomplete, want)
	check.That(t, !got.Incomplete, "got %q (incomplete: %v), want %q", texts, got.Incomplete, want)
}

// readBoth reads the lines of an activation that failed without sentinels: two,
// and the line that reports it.
func readBoth(t *testing.T, tail *logs.Tail) {
	t.Helper()
	got := tail.Collect(t.Context(), container.LogRequest{LimitBytes: 1 << 20, Failed: true})
	check.AtLeast(check.Must(t), len(got.Lines), 2)
}

// A line of one stream can stand behind a younger line of the other. Each line is read
// exactly once.
func TestStreamsOutOfOrder(t *testing.T) {
	bothDaemons(t, func(t *testing.T, l *logged) {
		tail := l.tail(t)
		shared := logRequest() // two sentinels end it, of whichever run
		shared.Alone = false
		l.print(stdout, 10, "a")
		l.print(stderr, 12, logs.Sentinel)
		l.print(stdout, 11, logs.Sentinel)
		collected(t, tail, shared, "stdout: a")
		l.print(stderr, 21, "c")
		l.print(stdout, 20, "b")
		l.print(stderr, 23, logs.Sentinel)
		l.print(stdout, 22, logs.Sentinel)
		collected(t, tail, shared, "stderr: c", "stdout: b")
		l.print(stdout, 30, logs.Sentinel)
		l.print(stderr, 30, logs.Sentinel)
		collected(t, tail, shared)
	})
}

// A line that is written late is read, though a younger one has been.
func TestLateLine(t *testing.T) {
	bothDaemons(t, func(t *testing.T, l *logged) {
		tail := l.tail(t)
		l.print(stdout, 2000, "a")
		l.print(stdout, 2500, "b")
		readBoth(t, tail)
		l.print(stderr, 1000, "late")
		l.print(stdout, 3000, logs.Sentinel)
		l.print(stderr, 3000, logs.Sentinel)
		collected(t, tail, logRequest(), "stderr: late")
	})
}

// The pieces of a long line have one time. The next reading does not repeat the pieces of
// the reading before.
func TestPiecesHaveOneTime(t *testing.T) {
	bothDaemons(t, func(t *testing.T, l *logged) {
		tail := l.tail(t)
		l.print(stdout, 5, "1")
		l.print(stdout, 5, "2")
		readBoth(t, tail)
		l.print(stdout, 5, "3")
		l.print(stdout, 6, logs.Sentinel)
		l.print(stderr, 6, logs.Sentinel)
		collected(t, tail, logRequest(), "stdout: 3")
	})
}

// A Skip skips the earlier output of both streams.
func TestSkipPassesBothStreams(t *testing.T) {
	bothDaemons(t, func(t *testing.T, l *logged) {
		l.print(stderr, 1, "old")
		for i := range 2 * lastLines {
			l.print(stdout, 10+i, "old")
		}
		tail := l.tail(t)
		check.NoError(t, tail.Skip(t.Context()))
		l.print(stderr, 300, "new")
		l.print(stdout, 301, logs.Sentinel)
		l.print(stderr, 301, logs.Sentinel)
		collected(t, tail, logRequest(), "stderr: new")
	})
}
