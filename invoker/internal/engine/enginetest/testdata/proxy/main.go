// Command proxy is a tiny action proxy for tests. The value of /run is what
// it does; the answer is the same value.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const sentinel = "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX"

type order struct {
	Stdout   []string `json:"stdout"`   // texts, printed as they are
	Stderr   []string `json:"stderr"`   //
	Repeat   int      `json:"repeat"`   // prints stdout so many times
	Quiet    bool     `json:"quiet"`    // no sentinels
	Allocate int      `json:"allocate"` // MiB to fill
	Fork     int      `json:"fork"`     // children to start
	Orphans  int      `json:"orphans"`  // orphans to leave behind, one after the other
	Exit     int      `json:"exit"`     // exit code to end with, without an answer
	Env      string   `json:"env"`      // variable to answer with
	Read     string   `json:"read"`     // file to answer with
	Write    string   `json:"write"`    // file to write to
	Dial     string   `json:"dial"`     // unix socket to read from
	Connect  string   `json:"connect"`  // address to connect to, host:port
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "sleep":
			_ = syscall.Pause()
		case "exit":
			fmt.Println("no licence")
			os.Exit(3)
		case "list":
			for _, path := range os.Args[2:] {
				fmt.Println(path, look(path))
			}
			return
		case "nothing":
			return
		case "leave":
			_ = exec.Command("/proc/self/exe", "nothing").Start()
			return
		}
	}
	http.HandleFunc("POST /init", func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]any{"ok": true}) })
	http.HandleFunc("POST /run", run)
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", nil))
	os.Exit(1)
}

func run(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Value order `json:"value"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o := body.Value
	for range max(1, o.Repeat) {
		io.WriteString(os.Stdout, strings.Join(o.Stdout, ""))
	}
	io.WriteString(os.Stderr, strings.Join(o.Stderr, ""))
	started := fork(o.Fork) + orphans(o.Orphans)
	allocate(o.Allocate)
	if o.Exit != 0 {
		os.Exit(o.Exit)
	}
	if !o.Quiet {
		fmt.Fprintln(os.Stdout, sentinel)
		fmt.Fprintln(os.Stderr, sentinel)
	}
	answer(w, map[string]any{"started": started, "env": os.Getenv(o.Env), "environ": os.Environ(), "dir": dir(),
		"read": read(o.Read), "written": written(o.Write), "received": received(o.Dial), "connected": connected(o.Connect)})
}

// read is the text of a file, or why there is none.
func read(path string) string {
	if path == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func written(path string) string {
	if path == "" {
		return ""
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		return err.Error()
	}
	return "done"
}

// received is what a peer sends to a socket.
func received(path string) string {
	if path == "" {
		return ""
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	text, err := io.ReadAll(conn)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// connected reports how an attempt to connect within a second ended.
func connected(address string) string {
	if address == "" {
		return ""
	}
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err.Error()
	}
	conn.Close()
	return "done"
}

func dir() string {
	d, _ := os.Getwd()
	return d
}

// fork starts children until that fails, and reports how many it got.
func fork(n int) int {
	for i := range n {
		if exec.Command("/proc/self/exe", "sleep").Start() != nil {
			return i
		}
	}
	return n
}

// orphans has children leave a child behind each, and returns how many could be started.
func orphans(n int) int {
	for i := range n {
		if exec.Command("/proc/self/exe", "leave").Run() != nil {
			return i
		}
	}
	return n
}

var kept [][]byte

func allocate(mib int) {
	for range mib {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 512 {
			block[i] = 1
		}
		kept = append(kept, block)
	}
}

func answer(w http.ResponseWriter, value map[string]any) {
	body, _ := json.Marshal(value)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.Write(body)
}

// look returns the number of a device, or the text of any other file.
func look(path string) string {
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		return err.Error()
	}
	if s.Mode&syscall.S_IFMT == syscall.S_IFCHR {
		return fmt.Sprintf("device %d:%d", s.Rdev>>8, s.Rdev&0xff)
	}
	return read(path)
}
