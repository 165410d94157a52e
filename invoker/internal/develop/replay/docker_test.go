package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// rawProxyImage is made from nothing but the program.
func rawProxyImage() string { return fmt.Sprintf("gpuwhisk/rawproxy:replay-%d", os.Getpid()) }

// dockerManifest names the images that were built for the test where the
// captured deployment had its own.
func dockerManifest(tag string) (manifestText string, images *strings.Replacer) {
	text := strings.NewReplacer(
		`"name":"action-nodejs"`, `"name":"action-nodejs","tag":"`+tag+`"`,
		`"name":"action-python3"`, `"name":"action-python3","tag":"`+tag+`"`,
		`{"prefix":"openwhisk","name":"dockerskeleton"}`, `{"prefix":"gpuwhisk","name":"action-native","tag":"`+tag+`"}`,
		`{"prefix":"whisk","name":"rawproxy"}`, fmt.Sprintf(`{"prefix":"gpuwhisk","name":"rawproxy","tag":"replay-%d"}`, os.Getpid()),
	).Replace(manifest)
	return text, strings.NewReplacer(
		`"openwhisk/dockerskeleton"`, `"gpuwhisk/action-native:`+tag+`"`,
		`"whisk/rawproxy"`, `"`+rawProxyImage()+`"`,
	)
}

// dockerEngine runs everything in containers.
func dockerEngine(t *testing.T) engine {
	t.Helper()
	tag, err := peertest.Images()
	if err == nil {
		err = peertest.Image(rawProxyImage(), rawProxy(t), `ENTRYPOINT ["/exec"]`)
	}
	check.NoError(t, err)
	manifestText, images := dockerManifest(tag)
	root := peertest.Docker(t, "info", "--format", "{{.DockerRootDir}}")
	var fixtures atomic.Int64
	return engine{"docker", func(w *fixture, _ scenario) string {
		// Invokers of one daemon must not remove each other's containers.
		w.unique = fmt.Sprintf("%s%dx%dx", strings.ToLower(t.Name()), os.Getpid(), fixtures.Add(1))
		w.manifest, w.images = manifestText, images
		w.extra = append(w.extra, "CONFIG_whisk_gpu_runtime=docker",
			"CONFIG_whisk_gpu_docker_logDirs_0="+filepath.Join(root, "containers"))
		if host := os.Getenv("DOCKER_HOST"); host != "" {
			w.extra = append(w.extra, "DOCKER_HOST="+host)
		}
		w.left = func() []string {
			return strings.Fields(peertest.Docker(w.t, "ps", "--all", "--quiet", "--filter", "name=wsk"+w.unique+"0_"))
		}
		return ""
	}}
}

// inDocker has the fixture's actions run in containers. Without a daemon the test is
// skipped.
func (w *fixture) inDocker() *fixture {
	w.t.Helper()
	peertest.NeedDocker(w.t)
	dockerEngine(w.t).fit(w, scenario{})
	return w
}

// bridge is this machine's address for containers.
func bridge(t *testing.T) string {
	t.Helper()
	return peertest.Docker(t, "network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")
}

// TestReplayInDocker plays every captured scenario in containers.
func TestReplayInDocker(t *testing.T) {
	t.Parallel()
	peertest.NeedDocker(t)
	replayAll(t, dockerEngine(t))
}
