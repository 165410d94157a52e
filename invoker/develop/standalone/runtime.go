package standalone

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/engine/docker"
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

// chooseManifest decides which kinds of actions there are, and where they run.
func (s *Standalone) chooseManifest(ctx context.Context) (text string, m *activation.Manifest, err error) {
	given := s.opts.Manifest
	if given == nil {
		given = defaultManifest(plainImage)
	}
	if m, err = activation.ParseManifest(given, activation.ManifestOptions{}); err != nil {
		return "", nil, fmt.Errorf("--runtimes: %w", err)
	}
	if s.info.Runtime, s.info.Why, err = chooseRuntime(ctx, s.opts.Runtime, s.opts.Docker, m); err != nil {
		return "", nil, err
	}
	if s.opts.Manifest == nil && s.info.Runtime == runtimeDocker && hasImage(ctx, s.opts.Docker, gpuImage) {
		s.info.Why += "; python:3-gpu with CuPy and the CUDA libraries"
		given = defaultManifest(gpuImage)
		m, err = activation.ParseManifest(given, activation.ManifestOptions{})
	}
	return string(given), m, err
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
// Docker if it answers and has the images. why is the reason, for the banner.
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
	lacking, err := lackingImages(ctx, host, defaultImages(m)...)
	switch {
	case err != nil:
		return runtimeProcess, "Docker does not answer; no isolation, for development only", nil
	case len(lacking) > 0:
		return runtimeProcess, "Docker lacks " + strings.Join(lacking, ", ") + "; no isolation, for development only", nil
	}
	return runtimeDocker, "Docker answers and has the images", nil
}

// dockerIsFit finds at once what the first call would fail for: that no engine
// answers, or that images are missing which no registry has. Those of another
// manifest may be pulled.
func dockerIsFit(ctx context.Context, host string, m *activation.Manifest) error {
	lacking, err := lackingImages(ctx, host, defaultImages(m)...)
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

// ownImages begins the names of the images that this project builds.
const ownImages = "gpuwhisk/"

// hasImage reports whether the Docker Engine has one of our images.
func hasImage(ctx context.Context, host, name string) bool {
	lacking, err := lackingImages(ctx, host, ownImages+name+":latest")
	return err == nil && len(lacking) == 0
}

// defaultImages are those of the default kinds.
func defaultImages(m *activation.Manifest) []string {
	var all []string
	for _, r := range m.Runtimes() {
		if r.Default {
			all = append(all, m.ManagedReference(r.Image))
		}
	}
	return all
}

// lackingImages are those that the Docker Engine, by default at its usual
// socket, does not have.
func lackingImages(ctx context.Context, host string, images ...string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d, err := docker.Connect(docker.Options{Host: host})
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	var lacking []string
	for _, image := range images {
		_, there, err := d.Image(ctx, image)
		if err != nil {
			return nil, err
		}
		if !there {
			lacking = append(lacking, image)
		}
	}
	return lacking, nil
}
