package replay

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// TestActionWithoutCode: an action that was created with empty code, of which the
// controller stores an attachment with no name, ends with its runtime's own error
// and not with one of ours.
func TestActionWithoutCode(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.Revisions["empty"] = w.DB.Store(t, harness.Names.Whisks, "guest/empty", []byte(`{"entityType":"action","namespace":"guest","name":"empty",`+
		`"version":"0.0.1","publish":false,"updated":1,"parameters":[],"annotations":[],"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},`+
		`"exec":{"kind":"nodejs:20","binary":false,"code":{"attachmentName":"mem://","attachmentType":"text/plain"}}}`))
	r := w.Start(0)
	ids := w.Invoke(1, harness.Message{Action: "empty"})
	w.AwaitSlot(ids...)
	r.End()
	record := string(w.StoredRecord(ids[0]))
	check.Contains(t, record, "no code to execute")
	check.Contains(t, record, `"statusCode":2`)
}
