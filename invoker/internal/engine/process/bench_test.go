package process

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func BenchmarkCreateToAnswer(b *testing.B) {
	f := start(b, nil)
	for b.Loop() {
		h := f.create()
		f.mustRun(h.Addr, wish{})
		check.NoError(b, f.Remove(b.Context(), h.ID))
	}
}

func BenchmarkCreate(b *testing.B) {
	f := start(b, nil)
	for b.Loop() {
		h := f.create()
		b.StopTimer()
		check.NoError(b, f.Remove(b.Context(), h.ID))
		b.StartTimer()
	}
}
