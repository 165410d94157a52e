package invoker

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// The init arguments by which an action could steer loader and driver are kept
// from an action that runs on a device, and only from that.
func TestGPUActionsDoNotSteerTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.action("cpu", nil)
		w.action("gpu", annotate(`true`))
		env := map[string]map[string]string{}
		w.init = func(body []byte) proxy.Exchange {
			var got struct {
				Value struct {
					Name string
					Env  map[string]string
				}
			}
			if err := json.Unmarshal(body, &got); err != nil {
				t.Error(err)
			}
			maps.DeleteFunc(got.Value.Env, func(name, _ string) bool { return strings.HasPrefix(name, "__OW_") })
			w.mu.Lock()
			defer w.mu.Unlock()
			env[got.Value.Name] = got.Value.Env
			return proxy.Exchange{Status: 200, Body: []byte(`{}`), ContentLength: 2}
		}
		_, stop := w.start(w.gpuSettings(1))
		for _, name := range []string{"cpu", "gpu"} {
			w.invoke(name, func(m *activation.Message) {
				m.Content = json.RawMessage(`{"LD_PRELOAD":"/x","CUDA_VISIBLE_DEVICES":"1","MODEL":"a"}`)
				m.InitArgs = []string{"LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "MODEL"}
			})
		}
		time.Sleep(time.Second)
		stop()
		if want := map[string]string{"LD_PRELOAD": "/x", "CUDA_VISIBLE_DEVICES": "1", "MODEL": "a"}; !maps.Equal(env["cpu"], want) {
			t.Errorf("without a device: %v", env["cpu"])
		}
		if want := map[string]string{"MODEL": "a"}; !maps.Equal(env["gpu"], want) {
			t.Errorf("on a device: %v", env["gpu"])
		}
	})
}
