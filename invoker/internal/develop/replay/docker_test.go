package replay

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// rawProxyImage is made from nothing but the program.
func rawProxyImage() string { return fmt.Sprintf("gpuwhisk/rawproxy:replay-%d", os.Getpid()) }

// dockerEngine runs everything in containers, with images that were built for the test in
// place of those of the captured deployment.
func dockerEngine(t *testing.T) engine {
	t.Helper()
	tag, err := peertest.Images()
	if err == nil {
		err = peertest.Image(rawProxyImage(), rawProxy(t), `ENTRYPOINT ["/exec"]`)
	}
	check.NoError(t, err)
	native, raw := "gpuwhisk/action-native:"+tag, rawProxyImage()
	return engine{"docker", harness.Parts{Docker: true}, func(w *fixture, _ scenario) string {
		w.Manifest = strings.NewReplacer(
			`{"prefix":"openwhisk","name":"dockerskeleton"}`, `{"prefix":"gpuwhisk","name":"action-native","tag":"`+tag+`"}`,
			`{"prefix":"whisk","name":"rawproxy"}`, fmt.Sprintf(`{"prefix":"gpuwhisk","name":"rawproxy","tag":"replay-%d"}`, os.Getpid()),
		).Replace(w.Manifest)
		w.images = strings.NewReplacer(`"openwhisk/dockerskeleton"`, `"`+native+`"`, `"whisk/rawproxy"`, `"`+raw+`"`)
		return ""
	}}
}

// TestReplayInDocker plays every captured scenario in containers.
func TestReplayInDocker(t *testing.T) {
	t.Parallel()
	peertest.NeedDocker(t)
	replayAll(t, dockerEngine(t))
}
