// Command rawproxy is the container of the captured actions rawproxy and
// rawproxynolog: an action proxy that answers /run with exactly what the
// parameters ask for, right or wrong.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

const sentinel = "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX"

// wish is what the parameters of a run ask for.
type wish struct {
	Mode       string `json:"mode"`       // empty, notjson, status, grow, close
	Raw        string `json:"raw"`        // the body
	Code       int    `json:"code"`       // the status, for mode status
	N          int    `json:"n"`          // numbers in the body, for mode grow
	NoSentinel bool   `json:"nosentinel"` // print no end of the log
}

func main() {
	http.HandleFunc("POST /init", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, `{"ok":true}`) })
	http.HandleFunc("POST /run", run)
	network, addr := "tcp", ":8080"
	if path := os.Getenv("__OW_PROXY_SOCKET"); path != "" {
		network, addr = "unix", path
	}
	l, err := net.Listen(network, addr)
	if err == nil {
		err = http.Serve(l, nil)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func run(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Value wish `json:"value"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o := body.Value
	if !o.NoSentinel && o.Mode != "close" {
		fmt.Fprintln(os.Stdout, sentinel)
		fmt.Fprintln(os.Stderr, sentinel)
	}
	switch o.Mode {
	case "empty":
		answer(w, http.StatusOK, "")
	case "notjson":
		answer(w, http.StatusOK, "this is no json")
	case "status":
		answer(w, o.Code, o.Raw)
	case "grow":
		answer(w, http.StatusOK, `{"a":[`+strings.TrimSuffix(strings.Repeat("1e3,", o.N), ",")+`]}`)
	case "close":
		// The capture tells of a connection that was closed, but the original
		// waited for the whole time limit: nothing came, not even an end.
		<-r.Context().Done()
	default:
		if o.Raw == "" {
			o.Raw = "{}"
		}
		answer(w, http.StatusOK, o.Raw)
	}
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}
