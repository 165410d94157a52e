package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Where actions run.
const (
	runtimeAuto    = "auto"
	runtimeDocker  = "docker"
	runtimeProcess = "process"
)

// The images of python:3-gpu: with the CUDA libraries, and the one in its place
// where that is not built, which has Python alone.
const (
	gpuImage   = "action-python3-gpu"
	plainImage = "action-python3"
)

// defaultManifest offers the kinds that our own proxies serve. The images are
// those that the build of this project makes; python3GPU is that of
// python:3-gpu.
func defaultManifest(python3GPU string) []byte {
	return []byte(`{"runtimes":{
"nodejs":[{"kind":"nodejs:20","default":true,"image":{"prefix":"gpuwhisk","name":"action-nodejs","tag":"latest"},
 "attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],
"python":[{"kind":"python:3","default":true,"image":{"prefix":"gpuwhisk","name":"action-python3","tag":"latest"},
 "attached":{"attachmentName":"codefile","attachmentType":"text/plain"}},
 {"kind":"python:3.11","image":{"prefix":"gpuwhisk","name":"action-python3","tag":"latest"},
 "attached":{"attachmentName":"codefile","attachmentType":"text/plain"}},
 {"kind":"python:3-gpu","image":{"prefix":"gpuwhisk","name":"` + python3GPU + `","tag":"latest"},
 "attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}],
"native":[{"kind":"native:1","default":true,"image":{"prefix":"gpuwhisk","name":"action-native","tag":"latest"},
 "attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}]},
"blackboxes":[{"prefix":"gpuwhisk","name":"action-native"}]}`)
}

// healthTest gives the kind and code of the action that invokers are tested
// with: Node.js as in the original, else what can run here.
func healthTest(runtime string, m *activation.Manifest) (kind, code string, err error) {
	const node, python = "function main(params) { return params; }", "def main(params):\n    return params\n"
	if r, ok := m.Runtime("nodejs:default"); ok && (runtime == runtimeDocker || onPath("node", "nodejs")) {
		return r.Kind, node, nil
	}
	if r, ok := m.Runtime("python:default"); ok && (runtime == runtimeDocker || onPath("python3")) {
		return r.Kind, python, nil
	}
	return "", "", errors.New("neither Node.js nor Python 3 can run actions here: install one, or give a runtimes manifest with one of them and Docker")
}

func onPath(names ...string) bool {
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			return true
		}
	}
	return false
}

// chooseRuntime decides between Docker and plain processes. "auto" takes
// Docker if it answers and has the images, and always says why.
func chooseRuntime(ctx context.Context, wanted, host string, m *activation.Manifest) (runtime, why string, err error) {
	switch wanted {
	case runtimeDocker:
		return runtimeDocker, "as asked", dockerIsFit(ctx, host, m)
	case runtimeProcess:
		return runtimeProcess, "as asked; no isolation, for development only", nil
	case "", runtimeAuto:
	default:
		return "", "", fmt.Errorf("--runtime %s: want docker, process or auto", wanted)
	}
	lacking, err := lackingImages(ctx, host, m)
	switch {
	case err != nil:
		return runtimeProcess, "Docker does not answer; no isolation, for development only", nil
	case len(lacking) > 0:
		return runtimeProcess, "Docker lacks " + strings.Join(lacking, ", ") + "; no isolation, for development only", nil
	}
	return runtimeDocker, "Docker answers and has the images", nil
}

// dockerIsFit says at once what the first call would fail for: that no engine
// answers, or that images are missing which no registry has. Those of another
// manifest may be pulled.
func dockerIsFit(ctx context.Context, host string, m *activation.Manifest) error {
	lacking, err := lackingImages(ctx, host, m)
	if err != nil {
		return fmt.Errorf("--runtime docker: Docker does not answer (--runtime process does without): %w", err)
	}
	for _, image := range lacking {
		if strings.HasPrefix(image, ownImages) {
			return fmt.Errorf("--runtime docker: Docker has no image %s; make images builds it (--runtime process does without)", image)
		}
	}
	return nil
}

// hasImage reports whether the Docker Engine has one of our images.
func hasImage(ctx context.Context, host, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client, base, err := dockerClient(host)
	if err != nil {
		return false
	}
	defer client.CloseIdleConnections()
	has, err := answers(ctx, client, base+"/images/"+url.PathEscape(ownImages+name+":latest")+"/json")
	return err == nil && has
}

// ownImages begins the names of the images that this project builds.
const ownImages = "gpuwhisk/"

// lackingImages asks the Docker Engine which of the default kinds' images it
// has not got.
func lackingImages(ctx context.Context, host string, m *activation.Manifest) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client, base, err := dockerClient(host)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	var lacking []string
	for _, r := range m.Runtimes() {
		image := m.ManagedReference(r.Image)
		if !r.Default {
			continue
		}
		has, err := answers(ctx, client, base+"/images/"+url.PathEscape(image)+"/json")
		if err != nil {
			return nil, err
		}
		if !has {
			lacking = append(lacking, image)
		}
	}
	return lacking, nil
}

// dockerClient reaches the engine, by default at its usual socket. It only
// asks what is there; actions are run by the invoker's own client.
func dockerClient(host string) (*http.Client, string, error) {
	if host == "" {
		host = "unix:///var/run/docker.sock"
	}
	u, err := url.Parse(host)
	if err != nil {
		return nil, "", fmt.Errorf("read address of Docker: %w", err)
	}
	if u.Scheme != "unix" {
		return &http.Client{}, "http://" + u.Host, nil
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", u.Path)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial}}, "http://docker", nil
}

func answers(ctx context.Context, client *http.Client, target string) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return false, fmt.Errorf("ask Docker: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask Docker: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode == http.StatusOK, nil
}
