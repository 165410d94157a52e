package native

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// The behaviour of the whole proxy is tested together with the other two, in the parent
// directory.

func TestFromEnv(t *testing.T) {
	addr, cfg := FromEnv([]string{"A=1=2", "__OW_PROXY_PORT=99", "__OW_PROXY_HOST=::1", "__OW_PROXY_DIR=/code",
		"__OW_ACTION_LOOP=TRUE", "__OW_API_HOST=h"}, nil, nil)
	want := []string{"A=1=2", "__OW_ACTION_LOOP=TRUE", "__OW_API_HOST=h"}
	check.Equal(t, addr.String(), "[::1]:99")
	check.Equal(t, cfg.Dir, "/code")
	check.That(check.Must(t), cfg.Loop, "%s %+v", addr, cfg)
	check.DeepEqual(t, cfg.Env, want)
	addr, cfg = FromEnv([]string{"__OW_PROXY_PORT="}, nil, nil)
	check.Equal(t, addr.String(), "0.0.0.0:8080")
	check.Equal(t, addr.Network(), "tcp")
	check.Equal(t, cfg.Dir, "action")
	check.That(t, !cfg.Loop, "%s %+v", addr, cfg)
	addr, cfg = FromEnv([]string{"__OW_PROXY_SOCKET=../s", "__OW_PROXY_PORT=99"}, nil, nil)
	check.Equal(t, addr.Network()+" "+addr.String(), "unix ../s")
	check.Equal(t, len(cfg.Env), 0)
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- serve(ctx, l, Config{Dir: t.TempDir(), Stdout: os.Stdout, Stderr: os.Stderr}) }()
	cancel()
	check.NoError(t, <-done)
}

func TestLastLineIsBuffered(t *testing.T) {
	for _, c := range []struct {
		parts     []string
		log, last string
	}{
		{[]string{"a\nb\n{}\n"}, "a\nb\n", "{}"},
		{[]string{"a", "\n", "b", "\n"}, "a\n", "b"},
		{[]string{"a\n", "\n"}, "a\n", ""},
		{[]string{"\n\n\n"}, "\n\n", ""},
		{[]string{""}, "", ""},
		{[]string{"a\n", "\nb"}, "a\n\n", "b"},
	} {
		log, err := os.CreateTemp(t.TempDir(), "log")
		check.NoError(t, err)
		defer log.Close()
		l := &lastLine{log: log}
		for _, part := range c.parts {
			n, err := l.Write([]byte(part))
			check.Equal(t, n, len(part), "%q", part)
			check.NoError(t, err, "%q: %d", part, n)
		}
		text, err := os.ReadFile(log.Name())
		check.NoError(t, err)
		check.Equal(t, string(text), c.log, "%q: log %q, last %q; want %q and %q", c.parts, text, l.line(), c.log, c.last)
		check.Equal(t, string(l.line()), c.last, "%q: log %q, last %q; want %q and %q", c.parts, text, l.line(), c.log, c.last)
	}
}

func TestArgumentsOfEnvironment(t *testing.T) {
	got := environ(map[string]json.RawMessage{"A": json.RawMessage(`"x"`), "B=": json.RawMessage(`"x"`),
		"": json.RawMessage(`"x"`), "N": json.RawMessage(`"a\u0000b"`)})
	check.DeepEqual(t, got, []string{"A=x"})
	check.Equal(t, lookup([]string{"A=1", "A=2", "AB=3"}, "A"), "2")
}

func FuzzPlainJSON(f *testing.F) {
	f.Add([]byte(`{"b":"ü😀<","a":1.50}`))
	f.Add([]byte(`[1,"\ud800"]`))
	f.Add([]byte(strings.Repeat("[", 20000)))
	f.Fuzz(func(t *testing.T, line []byte) {
		text, ok := plainJSON(line)
		if !ok {
			return
		}
		check.That(check.Must(t), json.Valid(text), "%q", text)
		check.Equal(t, text[len(text)-1], '\n')
		for _, c := range text {
			check.Less(check.Must(t), c, 0x80, "%q is not ASCII", text)
		}
	})
}

func FuzzParseRun(f *testing.F) {
	f.Add([]byte(`{"value":{"a":1},"api_key":"k","action_version":null}`))
	f.Add([]byte(`{"value":null}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, ok := parseRun(body)
		if ok && req.value[0] != '{' && req.value[0] != '[' {
			t.Errorf("value %q", req.value)
		}
		for _, kv := range req.env {
			check.Contains(t, kv, "=")
			check.Lacks(t, kv, "\x00")
		}
	})
}

// FuzzUnzip: no archive writes outside its directory.
func FuzzUnzip(f *testing.F) {
	seed := func(name, text string, mode fs.FileMode) {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: name, Method: zip.Store}
		h.SetMode(mode)
		if w, err := z.CreateHeader(h); err == nil {
			w.Write([]byte(text))
		}
		z.Close()
		f.Add(b.Bytes())
	}
	seed("exec", "#!/bin/sh\n", 0o755)
	seed("a/b/c", "", 0o644)
	seed("../out", "x", 0o644)
	seed("/out", "x", 0o644)
	seed("link", "../..", 0o777|fs.ModeSymlink)
	f.Fuzz(func(t *testing.T, data []byte) {
		above := t.TempDir()
		p := &proxy{cfg: Config{Dir: filepath.Join(above, "action")}}
		check.NoError(t, os.Mkdir(p.cfg.Dir, 0o755))
		p.unzip(data)
		entries, err := os.ReadDir(above)
		check.NoError(t, err)
		check.Equal(t, len(entries), 1)
	})
}
