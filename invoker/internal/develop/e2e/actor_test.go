package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// actorImage is an image made from nothing but the actor, a proxy that
// misbehaves when asked to. It has a fixed tag: one that moves would have to
// be pulled.
func actorImage(t testing.TB, w parts) string {
	t.Helper()
	name := fmt.Sprintf("gpuwhisk-e2e.invalid/actor:%d", os.Getpid())
	if w.real() {
		importActor(t, name, `CMD ["/exec"]`)
		w.offer(t, name)
	}
	return name
}

// variant is the same image with another command.
func (w parts) variant(t testing.TB, image, suffix, change string) string {
	t.Helper()
	importActor(t, image+suffix, change)
	w.offer(t, image+suffix)
	return image + suffix
}

func importActor(t testing.TB, name, change string) {
	t.Helper()
	program, err := peertest.Program("./testdata/actor")
	if err == nil {
		err = peertest.Image(name, program, change)
	}
	check.NoError(t, err)
}
