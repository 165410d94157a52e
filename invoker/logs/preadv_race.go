//go:build race || !(amd64 || arm64)

package logs

// preadReady leaves everything to common reads: the race detector does not see
// what others write.
func preadReady(uintptr, []byte, int64) (n int, known bool) { return -1, false }
