package replay

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// docker runs the docker command, which finds its daemon as our engine does.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v: %s", args[0], err, out)
	}
	return strings.TrimSpace(string(out))
}

// needDocker skips a test where no daemon answers, or fails it where peers
// must be.
func needDocker(t *testing.T) {
	t.Helper()
	out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput()
	if err == nil {
		return
	}
	reason := fmt.Sprintf("no Docker daemon answers (DOCKER_HOST or the default socket): %v: %.200s", err, out)
	if os.Getenv("GPUWHISK_REQUIRE_PEERS") == "1" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

// dockerImages gives the tag of the images of our proxies: those that
// GPUWHISK_TEST_IMAGES_TAG names, else new ones from this machine's
// interpreters. The image rawproxy is always made, from nothing but the
// program. Tests share them, and they go when all have ended.
var dockerImages = sync.OnceValues(func() (tag string, err error) {
	if tag = os.Getenv("GPUWHISK_TEST_IMAGES_TAG"); tag == "" {
		tag = fmt.Sprintf("replay-%d", os.Getpid())
		build := exec.Command("../../docker/runtimes/build.sh")
		build.Env = append(os.Environ(), "TAG="+tag)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build images: %w: %s", err, out)
		}
		for _, name := range []string{"action-nodejs", "action-python3", "action-native"} {
			removeAtExit("gpuwhisk/" + name + ":" + tag)
		}
	}
	program, err := rawProxy()
	if err != nil {
		return "", err
	}
	layer := program + ".tar"
	if out, err := exec.Command("tar", "-C", filepath.Dir(program), "-cf", layer, filepath.Base(program)).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w: %s", err, out)
	}
	removeAtExit(rawProxyImage())
	if out, err := exec.Command("docker", "import", "--change", `ENTRYPOINT ["/rawproxy"]`, layer, rawProxyImage()).CombinedOutput(); err != nil {
		return "", fmt.Errorf("import image rawproxy: %w: %s", err, out)
	}
	return tag, nil
})

func removeAtExit(image string) {
	atExit(func() error {
		if out, err := exec.Command("docker", "rmi", "-f", image).CombinedOutput(); err != nil {
			return fmt.Errorf("remove image %s: %w: %s", image, err, out)
		}
		return nil
	})
}

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
	tag, err := dockerImages()
	if err != nil {
		t.Fatal(err)
	}
	manifestText, images := dockerManifest(tag)
	root := docker(t, "info", "--format", "{{.DockerRootDir}}")
	var worlds atomic.Int64
	return engine{"docker", func(w *world, _ scenario) string {
		// Invokers of one daemon must not clean up after each other.
		w.unique = fmt.Sprintf("%s%dx%dx", strings.ToLower(t.Name()), os.Getpid(), worlds.Add(1))
		w.manifest, w.images = manifestText, images
		w.extra = append(w.extra, "CONFIG_whisk_gpu_runtime=docker",
			"CONFIG_whisk_gpu_docker_logDirs_0="+filepath.Join(root, "containers"))
		if host := os.Getenv("DOCKER_HOST"); host != "" {
			w.extra = append(w.extra, "DOCKER_HOST="+host)
		}
		w.left = func() []string {
			return strings.Fields(docker(w.t, "ps", "--all", "--quiet", "--filter", "name=wsk"+w.unique+"0_"))
		}
		return ""
	}}
}

// TestReplayInDocker plays every captured scenario in containers.
func TestReplayInDocker(t *testing.T) {
	t.Parallel()
	needDocker(t)
	replayAll(t, dockerEngine(t))
}
