package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

func TestPing(t *testing.T) {
	status, text := http.StatusOK, "pong"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ping" {
			t.Errorf("request of %s", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	n, _ := strconv.Atoi(port)
	a := config.Admin{Port: n, Protocol: "http"}
	if err := ping(t.Context(), a); err != nil {
		t.Errorf("one that takes work: %v", err)
	}
	status, text = http.StatusServiceUnavailable, "not ready: waiting for Kafka"
	if err := ping(t.Context(), a); err == nil || !strings.Contains(err.Error(), "waiting for Kafka") {
		t.Errorf("one that waits: %v", err)
	}
	s.Close()
	if err := ping(t.Context(), a); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no invoker: %v", err)
	}
	a.Protocol = "https"
	if err := ping(t.Context(), a); err == nil || !strings.Contains(err.Error(), "key store") {
		t.Errorf("https without a store: %v", err)
	}
}
