package enginetest

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Answer is the proxy's answer to /run.
type Answer struct {
	Started   int      `json:"started"`
	Env       string   `json:"env"`
	Environ   []string `json:"environ"`
	Output    string   `json:"read"`
	Written   string   `json:"written"`
	Received  string   `json:"received"`
	Connected string   `json:"connected"`
}

// call asks the proxy to do something, after the proxy has begun to listen.
func call(t testing.TB, addr string, value map[string]any) (Answer, error) {
	t.Helper()
	AwaitListening(t, addr)
	body, _ := json.Marshal(map[string]any{"value": value})
	resp, err := http.Post("http://"+addr+"/run", "application/json", bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	var a Answer
	return a, json.NewDecoder(resp.Body).Decode(&a)
}

// MustCall is Call for a proxy that must answer.
func MustCall(t testing.TB, addr string, value map[string]any) Answer {
	t.Helper()
	a, err := call(t, addr, value)
	check.NoError(t, err)
	return a
}

// AwaitListening waits until the proxy listens.
func AwaitListening(t testing.TB, addr string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		check.That(check.Must(t), !time.Now().After(deadline), "proxy at %s does not listen: %v", addr, err)
	}
}
