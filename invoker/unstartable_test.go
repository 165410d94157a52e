package invoker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestUnstartableIsAnsweredAtOnce: while a function pauses because it cannot be started, its
// callers get the known error at once. Activations that wait already get it, too. An update is
// tried at once. The platform's own errors are not known in advance, so calls wait for the
// pause.
func TestUnstartableIsAnsweredAtOnce(t *testing.T) {
	const syntaxError = `{"error":"SyntaxError: invalid syntax (exec, line 2)"}`
	create := func(blame container.Blame) func(container.Spec) error {
		return func(container.Spec) error {
			pass(time.Second) // the others come meanwhile
			return &container.CreateError{Blame: blame, Message: "Failed to pull container image 'u/f'."}
		}
	}
	for name, c := range map[string]struct {
		create func(container.Spec) error
		init   func([]byte) proxy.Exchange
		want   string // error; empty: calls wait
	}{
		"code": {
			init: func([]byte) proxy.Exchange {
				pass(time.Second)
				return proxy.Exchange{Status: 502, Sent: true, Body: []byte(syntaxError)}
			},
			want: syntaxError,
		},
		"image":    {create: create(container.BlameDeveloper), want: `{"error":"Failed to pull container image 'u/f'."}`},
		"platform": {create: create(container.BlameWhisk)},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(t *testing.T, env *fixture) {
				env.action("f", annotate(`{"memory":"2 GB"}`))
				works := env.init
				env.create = c.create
				if c.init != nil {
					env.init = c.init
				}
				_, stop := env.start(env.gpuSettings(1))
				for range 5 { // two run at a time, the last one waits
					env.invoke("f", nil)
				}
				pass(3 * time.Second)
				id := env.invokeAndWait("f", 0)
				if c.want == "" {
					check.That(t, env.record(id) == nil, "answered during the pause")
				} else {
					rec := env.record(id)
					check.That(check.Must(t), rec != nil, "waits for the end of the pause")
					check.Equal(t, rec.Response.StatusCode, activation.StatusDeveloperError)
					check.Equal(t, string(rec.Response.Result), c.want)
					check.Equal(t, len(env.kinds(id)), 1, "acks")
				}
				env.mu.Lock()
				check.AtMost(t, env.made, 4, "containers")
				if c.init != nil {
					check.Equal(t, env.gpu.hurried, 4, "failed runs wait for no report")
				}
				env.create, env.init = nil, works
				env.mu.Unlock()
				env.action("f", func(a *activation.Action) {
					annotate(`{"memory":"2 GB"}`)(a)
					a.Rev = "2-b"
				})
				updated := env.invoke("f", func(m *activation.Message) { m.Revision = "2-b" })
				synctest.Wait()
				env.ok(updated)
				stop()
			})
		})
	}
}
