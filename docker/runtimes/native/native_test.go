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
	"reflect"
	"strings"
	"testing"
)

// The behaviour of the proxy as a whole is tested beside the other two, in the
// folder above.

func TestFromEnv(t *testing.T) {
	addr, cfg := FromEnv([]string{"A=1=2", "__OW_PROXY_PORT=99", "__OW_PROXY_HOST=::1", "__OW_PROXY_DIR=/code",
		"__OW_ACTION_LOOP=TRUE", "__OW_API_HOST=h"}, nil, nil)
	want := []string{"A=1=2", "__OW_ACTION_LOOP=TRUE", "__OW_API_HOST=h"}
	if addr != "[::1]:99" || cfg.Dir != "/code" || !cfg.Loop || !reflect.DeepEqual(cfg.Env, want) {
		t.Errorf("%s %+v", addr, cfg)
	}
	if addr, cfg := FromEnv([]string{"__OW_PROXY_PORT="}, nil, nil); addr != "0.0.0.0:8080" || cfg.Dir != "action" || cfg.Loop {
		t.Errorf("%s %+v", addr, cfg)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Serve(ctx, l, Config{Dir: t.TempDir(), Stdout: os.Stdout, Stderr: os.Stderr}) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		l := &lastLine{log: log}
		for _, part := range c.parts {
			if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
				t.Errorf("%q: %d %v", part, n, err)
			}
		}
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != c.log || string(l.line()) != c.last {
			t.Errorf("%q: log %q, last %q; want %q and %q", c.parts, text, l.line(), c.log, c.last)
		}
	}
}

func TestArgumentsOfEnvironment(t *testing.T) {
	got := environ(map[string]json.RawMessage{"A": json.RawMessage(`"x"`), "B=": json.RawMessage(`"x"`),
		"": json.RawMessage(`"x"`), "N": json.RawMessage(`"a\u0000b"`)})
	if !reflect.DeepEqual(got, []string{"A=x"}) {
		t.Errorf("%q", got)
	}
	if got := lookup([]string{"A=1", "A=2", "AB=3"}, "A"); got != "2" {
		t.Errorf("%q", got)
	}
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
		if !json.Valid(text) || text[len(text)-1] != '\n' {
			t.Errorf("%q", text)
		}
		for _, c := range text {
			if c >= 0x80 {
				t.Fatalf("%q is not ASCII", text)
			}
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
			if !strings.Contains(kv, "=") || strings.Contains(kv, "\x00") {
				t.Errorf("variable %q", kv)
			}
		}
	})
}

// FuzzUnzip searches for an archive that writes outside its folder.
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
		if err := os.Mkdir(p.cfg.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		p.unzip(data)
		entries, err := os.ReadDir(above)
		if err != nil || len(entries) != 1 {
			t.Errorf("%v beside the folder, %v", entries, err)
		}
	})
}
