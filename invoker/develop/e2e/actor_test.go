package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// actors are the images that were made from the actor, by name.
var actors struct {
	sync.Mutex
	made map[string]bool
}

// actorImage is an image made from nothing but the actor, a proxy that
// misbehaves when asked to. It has a fixed tag: one that moves would have to
// be pulled.
func actorImage(t testing.TB, w parts) string {
	t.Helper()
	name := fmt.Sprintf("gpuwhisk-e2e.invalid/actor:%d", os.Getpid())
	if w.real() {
		importActor(t, name, `CMD ["/actor"]`)
	}
	return name
}

// variant is the same image with another command.
func variant(t testing.TB, image, suffix, change string) string {
	t.Helper()
	importActor(t, image+suffix, change)
	return image + suffix
}

func importActor(t testing.TB, name, change string) {
	t.Helper()
	actors.Lock()
	defer actors.Unlock()
	if actors.made[name] {
		return
	}
	if actors.made == nil {
		actors.made = map[string]bool{}
	}
	program := built(t, "./testdata/actor")
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	_ = w.WriteHeader(&tar.Header{Name: "actor", Mode: 0o755, Size: int64(len(program))})
	_, _ = w.Write(program)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("docker", "import", "--change", change, "-", name)
	cmd.Stdin = &root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("import image %s: %v: %s", name, err, out)
	}
	actors.made[name] = true
	peertest.AtExit(func() error {
		if out, err := exec.Command("docker", "rmi", "-f", name).CombinedOutput(); err != nil {
			return fmt.Errorf("remove image %s: %w: %s", name, err, out)
		}
		return nil
	})
}
