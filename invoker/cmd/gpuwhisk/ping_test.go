package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
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
	check.NoError(t, ping(t.Context(), a), "an invoker that accepts work")
	status, text = http.StatusServiceUnavailable, "not ready: waiting for Kafka"
	check.ErrorContains(t, ping(t.Context(), a), "waiting for Kafka")
	s.Close()
	check.ErrorContains(t, ping(t.Context(), a), "refused", "no invoker")
	check.ErrorContains(t, ping(t.Context(), a), "(PORT names the port of the invoker, now "+strconv.Itoa(n)+";")
	a.Protocol = "https"
	check.ErrorContains(t, ping(t.Context(), a), "key store", "https without a store")
}
