package admin

import (
	"context"
	"errors"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestPool(t *testing.T) {
	var failed error
	h := New(Options{
		Username: "invoker.user", Password: "invoker.pass", Header: "X-Request-ID", Pings: &pings{},
		Pool: func(context.Context) (any, int, error) { return map[string]int{"totalContainers": 2}, 2, failed },
	})
	for _, c := range []struct {
		path, user string
		err        error
		status     int
		want       string
	}{
		{"/pool", "invoker.user", nil, 200, `"totalContainers": 2`},
		{"/pool/count", "invoker.user", nil, 200, "2"},
		{"/pool", "invoker.user", errors.New("too slow"), 503, "too slow"},
		{"/pool/count", "invoker.user", errors.New("too slow"), 503, "too slow"},
		{"/pool/count", "", nil, 401, "Authentication"},
	} {
		failed = c.err
		w := ask(t, h, "GET", c.path, c.user)
		check.Equal(t, w.Code, c.status, "%s", c.path)
		check.Contains(t, w.Body.String(), c.want, "%s", c.path)
	}
	check.Equal(t, ask(t, New(Options{Username: "invoker.user", Password: "invoker.pass", Pings: &pings{}}), "GET", "/pool", "invoker.user").Code, 404, "in classic mode")
}
