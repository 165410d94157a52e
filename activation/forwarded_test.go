package activation

import (
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestForwardedMessage: a forwarded message names the invoker whose slot it takes. An
// incomplete one is refused, and fields of a newer version are skipped.
func TestForwardedMessage(t *testing.T) {
	m := &Message{
		TransID: NewTransID("t", 1, false), Action: ActionRef{Path: "guest", Name: "a"}, Controller: "0",
		User:         Identity{Subject: "guest", Namespace: Namespace{Name: "guest", UUID: "u"}, AuthKey: NewAuthKey("k:s"), Rights: []string{"ACTIVATE"}},
		ActivationID: ID(strings.Repeat("a", 32)),
		Forwarded:    &Forwarded{Instance: Instance{ID: 7, UniqueName: "x", UserMemory: 1 << 30}, Hops: 2},
	}
	text := string(m.Encode())
	got, err := DecodeMessage([]byte(text))
	check.NoError(t, err)
	check.That(check.Must(t), got.Forwarded != nil, "%v: %+v", err, got.Forwarded)
	check.Equal(check.Must(t), got.Forwarded.Hops, 2)
	check.Equal(check.Must(t), string(got.Forwarded.Instance.Encode()), string(m.Forwarded.Instance.Encode()))
	_, err = DecodeMessage([]byte(strings.Replace(text, `"hops":2,`, `"later":[{}],"hops":2,`, 1)))
	check.NoError(t, err, "a newer member")
	_, err = DecodeMessage([]byte(strings.Replace(text, `"hops":2,`, ``, 1)))
	check.That(t, err != nil, "read without its hops")
	m.Forwarded = nil
	check.Lacks(t, string(m.Encode()), "forwarded", "a controller's message got the member")
}
