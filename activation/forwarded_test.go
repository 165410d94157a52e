package activation

import (
	"strings"
	"testing"
)

// A forwarded message names the invoker whose slot it takes. Without all of that
// it is refused, and what a newer version adds is skipped.
func TestForwardedMessage(t *testing.T) {
	m := &Message{
		TransID: NewTransID("t", 1, false), Action: ActionRef{Path: "guest", Name: "a"}, Controller: "0",
		User:         Identity{Subject: "guest", Namespace: Namespace{Name: "guest", UUID: "u"}, AuthKey: NewAuthKey("k:s"), Rights: []string{"ACTIVATE"}},
		ActivationID: ID(strings.Repeat("a", 32)),
		Forwarded:    &Forwarded{Instance: Instance{ID: 7, UniqueName: "x", UserMemory: 1 << 30}, Hops: 2},
	}
	text := string(m.Encode())
	got, err := DecodeMessage([]byte(text))
	if err != nil || got.Forwarded == nil || got.Forwarded.Hops != 2 || string(got.Forwarded.Instance.Encode()) != string(m.Forwarded.Instance.Encode()) {
		t.Fatalf("%v: %+v", err, got.Forwarded)
	}
	if _, err := DecodeMessage([]byte(strings.Replace(text, `"hops":2,`, `"later":[{}],"hops":2,`, 1))); err != nil {
		t.Errorf("a newer member: %v", err)
	}
	if _, err := DecodeMessage([]byte(strings.Replace(text, `"hops":2,`, ``, 1))); err == nil {
		t.Error("read without its hops")
	}
	m.Forwarded = nil
	if strings.Contains(string(m.Encode()), "forwarded") {
		t.Error("a controller's message got the member")
	}
}
