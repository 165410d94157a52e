package assembly

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/wal"
)

// A record of a GPU function with a few lines of logs, as they are written.
const usualRecord = `{"_id":"tenant-of-usual-length/%[1]s","activationId":"%[1]s","annotations":[{"key":"path","value":"tenant-of-usual-length/package/action-of-usual-length"},` +
	`{"key":"waitTime","value":137},{"key":"kind","value":"python:3.11"},{"key":"timeout","value":false},{"key":"limits","value":{"concurrency":1,"logs":10,"memory":256,"timeout":60000}},` +
	`{"key":"gpu","value":{"device":"0 (NVIDIA A100-SXM4-40GB)","gpuTime":612,"memory":1048584,"prefetchTime":0,"queueTime":137,"start":"gpu-warm"}}],` +
	`"duration":613,"end":1795314857960,"entityType":"activation","logs":["2026-11-22T02:34:17.347Z stdout: request of 12 images of 224x224, model resnet50 is loaded",` +
	`"2026-11-22T02:34:17.960Z stdout: inference took 598 ms"],"name":"action-of-usual-length","namespace":"tenant-of-usual-length","publish":false,` +
	`"response":{"result":{"classes":["tabby cat","lynx","tiger"],"scores":[0.8123,0.1035,0.0312]},"size":115,"statusCode":0},"start":1795314857347,` +
	`"subject":"tenant-of-usual-length","updated":1795314857993,"version":"0.0.17"}`

// The default spool has the records of a day without the database, at a hundred
// a second.
func TestSpoolCapacity(t *testing.T) {
	size := int64(config.Default().State.SpoolSize)
	s, err := records.OpenSpool(records.SpoolConfig{Dir: t.TempDir(), Bytes: size, Sync: wal.SyncNone})
	check.NoError(t, err)
	defer s.Close()
	const some = 1000
	for i := range some {
		body := fmt.Sprintf(usualRecord, fmt.Sprintf("%032x", i))
		if _, err := activation.DecodeRecord([]byte(body)); err != nil {
			t.Fatal(err)
		}
		check.NoError(t, s.Append([]records.Document{{ID: fmt.Sprintf("tenant-of-usual-length/%032x", i), Body: []byte(body)}}))
	}
	each := s.Bytes() / some
	day := each * 100 * int64((24 * time.Hour).Seconds())
	t.Logf("%d bytes a record, %.1f GiB a day at 100 a second, of %.1f GiB", each, float64(day)/(1<<30), float64(size)/(1<<30))
	if day > size {
		t.Errorf("a day takes %d bytes, the spool has %d", day, size)
	}
}
