package harness

import (
	"cmp"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// firstVersion is the version of an action that was not updated.
const firstVersion = "0.0.1"

// Message is an activation message as a controller of OpenWhisk writes it, for an
// action in the namespace guest.
type Message struct {
	ID, Action, Revision string
	Version              string // of the action; empty means 0.0.1
	NoAnswer             bool   // the call is non-blocking
	Content              map[string]any
}

// Text returns the JSON of the message.
func (m Message) Text(t testing.TB) []byte {
	t.Helper()
	content, err := json.Marshal(m.Content)
	check.NoError(t, err)
	return fmt.Appendf(nil, `{"transid":["t%.32s",%d],"action":{"path":"guest","name":%q,"version":%q},"revision":%q,`+
		`"activationId":%q,"rootControllerIndex":{"asString":"0","instanceType":"controller"},"blocking":%t,"initArgs":[],`+
		`"lockedArgs":{},"content":%s,"user":{"subject":"guest","namespace":{"name":"guest","uuid":"u"},`+
		`"authkey":{"api_key":"u:k"},"rights":[],"limits":{}}}`,
		m.ID, time.Now().UnixMilli(), m.Action, cmp.Or(m.Version, firstVersion), m.Revision, m.ID, !m.NoAnswer, content)
}

// Action holds the parts of an action that tests set. The other parts are wsk's
// defaults.
type Action struct {
	Name, Kind, Code string
	Version          string // empty means 0.0.1
	Updates          string // the revision that the document replaces; empty means none
	Image            string // makes the action a blackbox
	Annotations      map[string]any
	Timeout          time.Duration
	Concurrency      int // 0 means 1
	MemoryMB         int // 0 means 256
	LogsMB           int
}

// Document returns the document that a controller stores for the action.
func (a Action) Document(t testing.TB) []byte {
	t.Helper()
	annotations := []any{}
	for key, value := range a.Annotations {
		annotations = append(annotations, map[string]any{"key": key, "value": value})
	}
	exec := map[string]any{"kind": a.Kind, "binary": false, "code": a.Code}
	if a.Image != "" {
		exec["image"] = a.Image
	}
	doc := map[string]any{
		"entityType": "action", "namespace": "guest", "name": a.Name, "version": cmp.Or(a.Version, firstVersion), "publish": false, "updated": 1,
		"parameters": []any{}, "annotations": annotations,
		"limits": map[string]any{"concurrency": max(a.Concurrency, 1), "logs": a.LogsMB, "memory": cmp.Or(a.MemoryMB, 256), "timeout": a.Timeout.Milliseconds()},
		"exec":   exec,
	}
	if a.Updates != "" {
		doc["_rev"] = a.Updates
	}
	text, err := json.Marshal(doc)
	check.NoError(t, err)
	return text
}
