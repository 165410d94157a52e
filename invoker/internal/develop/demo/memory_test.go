package demo

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestMemoryTour shows device memory with functions as processes,
// and with GPUWHISK_LONG=1 in Docker containers too: each kind of start happens,
// memory goes out and in, comes ahead of a run, and is as it was left.
func TestMemoryTour(t *testing.T) {
	t.Run("process", func(t *testing.T) { showsMemory(t, standalone.Options{Runtime: "process"}) })
	if os.Getenv("GPUWHISK_LONG") != "1" {
		return
	}
	t.Run("docker", func(t *testing.T) {
		tag := peertest.Variable(t, "GPUWHISK_TEST_IMAGES_TAG", "images.sh")
		attached := `"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}`
		showsMemory(t, standalone.Options{Runtime: "docker", Docker: os.Getenv("DOCKER_HOST"), Manifest: fmt.Appendf(nil,
			`{"runtimes":{"python":[{"kind":"python:3-gpu","default":true,"image":{"prefix":"gpuwhisk","name":"action-python3","tag":%q},%s}]},"blackboxes":[]}`, tag, attached)})
	})
}

func showsMemory(t *testing.T, s standalone.Options) {
	m := Here()
	library, driver := shim(t, m)
	m.Driver = true
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var out bytes.Buffer
	r := &harness.Local{}
	s.GPUs, s.Invoker, s.Admin, s.Version, s.Memory = 1, r.Start, r.Addr, "test", "8192m"
	s.Extra = append(m.Settings(), "CONFIG_whisk_gpu_shim_library="+library, "CONFIG_whisk_gpu_fakeDriver="+driver)
	o := Options{
		Standalone: s, Machine: m, Memory: true, Out: &out,
	}
	check.NoError(t, showMemory(t.Context(), o, printer{w: &out}), "%s", &out)
	text := out.String()
	for _, want := range []string{
		`the first call loads it +small +cold +0 +0  new\n`,
		`still there +small +gpu-warm +0 +0  as it was left`,
		`two calls at once.* small +gpu-warm`,
		`needs all the memory +large +cold +(16|32) +0  new`,
		`comes back from the host +small +host-warm +\d+ +16  as it was left`,
		`out again +large +host-warm +(16|32) +66  as it was left`,
		`behind two others +small +gpu-warm +\d+ +\d+  as it was left\n`,
		`\n +small +busy-cold +new\n`,
		`came in before its turn`,
	} {
		check.That(t, regexp.MustCompile(want).MatchString(text), "the output lacks %q:\n%s", want, text)
	}
	check.Lacks(t, text, "LOST")
	leftBehind(t, temp)
}
