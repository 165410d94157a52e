// The actor is an action proxy that misbehaves when asked to: the parameter
// "do" of a run, and of an /init the parameter's name in the code, say how.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "exit" {
		os.Exit(3)
	}
	http.HandleFunc("/init", initialise)
	http.HandleFunc("/run", run)
	_ = http.ListenAndServe(":8080", nil)
}

type request struct {
	Value struct {
		Do   string `json:"do"`
		Code string `json:"code"`
	} `json:"value"`
}

func initialise(w http.ResponseWriter, r *http.Request) {
	var in request
	_ = json.NewDecoder(r.Body).Decode(&in)
	if do, ok := strings.CutPrefix(in.Value.Code, "init:"); ok {
		act(w, do, "{}")
		return
	}
	say(w, 200, `{"ok":true}`)
}

func run(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var in request
	_ = json.Unmarshal(body, &in)
	fmt.Println("actor ran")
	var whole struct{ Value json.RawMessage }
	_ = json.Unmarshal(body, &whole)
	act(w, in.Value.Do, string(whole.Value))
}

func act(w http.ResponseWriter, do, echo string) {
	switch do {
	case "echo":
		say(w, 200, echo)
	case "hang":
		select {}
	case "late":
		time.Sleep(6 * time.Second)
		say(w, 200, echo)
	case "exit":
		os.Exit(7)
	case "unwell":
		say(w, 503, "not now")
	case "text":
		say(w, 200, "no JSON at all")
	case "scalar":
		say(w, 200, "42")
	case "empty":
		say(w, 200, "")
	case "error":
		say(w, 500, `{"error":"as asked"}`)
	case "odd":
		say(w, 500, `{"nothing":1}`)
	case "chunked":
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		_, _ = io.WriteString(w, echo)
	case "long":
		say(w, 200, `{"long":"`+strings.Repeat("x", 2<<20)+`"}`)
	case "close":
		raw(w, "", false)
	case "reset":
		raw(w, "HTTP/1.1 200 OK\r\n", true)
	case "noise":
		raw(w, "\x00\xff\x13 this is not HTTP\r\n\r\n", false)
	case "half":
		raw(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"half\":", false)
	case "endless-head":
		raw(w, "HTTP/1.1 200 OK\r\n"+strings.Repeat("X-More: "+strings.Repeat("y", 1000)+"\r\n", 20_000), false)
	}
}

func say(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// raw writes bytes that no HTTP server would, and ends the connection, with a
// reset if asked to.
func raw(w http.ResponseWriter, text string, reset bool) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
}
