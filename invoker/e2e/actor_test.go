package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
)

var actor = struct {
	sync.Once
	err error
}{}

// actorImage is an image made from nothing but the actor, a proxy that
// misbehaves when asked to. It has a fixed tag: one that moves would have to
// be pulled.
func actorImage(t testing.TB, w world) string {
	t.Helper()
	name := fmt.Sprintf("gpuwhisk-e2e.invalid/actor:%d", os.Getpid())
	if !w.real() {
		return name
	}
	actor.Do(func() { actor.err = importActor(name, built(t, "./testdata/actor")) })
	if actor.err != nil {
		t.Fatal(actor.err)
	}
	return name
}

func importActor(name string, program []byte) error {
	var root bytes.Buffer
	w := tar.NewWriter(&root)
	if err := w.WriteHeader(&tar.Header{Name: "actor", Mode: 0o755, Size: int64(len(program))}); err != nil {
		return err
	}
	if _, err := w.Write(program); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	cmd := exec.Command("docker", "import", "--change", `CMD ["/actor"]`, "-", name)
	cmd.Stdin = &root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import image %s: %w: %s", name, err, out)
	}
	atExit = append(atExit, func() error {
		if out, err := exec.Command("docker", "rmi", "-f", name).CombinedOutput(); err != nil {
			return fmt.Errorf("remove image %s: %w: %s", name, err, out)
		}
		return nil
	})
	return nil
}
