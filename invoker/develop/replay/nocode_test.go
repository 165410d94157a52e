package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestActionWithoutCode: an action that was created with empty code, of which the
// controller stores an attachment with no name, ends with its runtime's own error
// and not with one of ours.
func TestActionWithoutCode(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rev, err := w.db.Put(t.Context(), names.Whisks, "guest/empty", []byte(`{"entityType":"action","namespace":"guest","name":"empty",`+
		`"version":"0.0.1","publish":false,"updated":1,"parameters":[],"annotations":[],"limits":{"concurrency":1,"logs":10,"memory":256,"timeout":60000},`+
		`"exec":{"kind":"nodejs:20","binary":false,"code":{"attachmentName":"mem://","attachmentType":"text/plain"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := w.start()
	const id = "0000000000000000000000000000e000"
	w.publish(fmt.Sprintf(`{"transid":["t1",%d],"action":{"path":"guest","name":"empty","version":"0.0.1"},"revision":%q,"activationId":%q,`+
		`"rootControllerIndex":{"asString":"0","instanceType":"controller"},"blocking":true,"initArgs":[],"lockedArgs":{},"content":{},`+
		`"user":{"subject":"guest","namespace":{"name":"guest","uuid":"u"},"authkey":{"api_key":"u:k"},"rights":[],"limits":{}}}`,
		time.Now().UnixMilli(), rev, id))
	w.awaitSlot(id)
	r.end()
	if rec := string(w.record(id)); !strings.Contains(rec, "no code to execute") || !strings.Contains(rec, `"statusCode":2`) {
		t.Errorf("record %s", rec)
	}
}
