package activation

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// oneMessage is a captured message with every part that is usual.
func oneMessage(t testing.TB) string {
	t.Helper()
	for _, c := range capturedRecords(t) {
		if c.scenario == "package-binding" && c.Topic == "invoker0" {
			return c.Value
		}
	}
	t.Fatal("no message")
	return ""
}

// TestMessageNeedsEveryField takes each member away in turn.
func TestMessageNeedsEveryField(t *testing.T) {
	whole := oneMessage(t)
	for path, required := range map[string]bool{
		"transid": true, "action": true, "revision": true, "user": true, "activationId": true,
		"rootControllerIndex": true, "blocking": true, "initArgs": true, "lockedArgs": true,
		"content":     false,
		"action.path": true, "action.name": true, "action.version": false, "action.binding": false,
		"user.subject": true, "user.namespace": true, "user.authkey": true, "user.rights": true, "user.limits": true,
		"user.namespace.name": true, "user.namespace.uuid": true,
		"rootControllerIndex.asString": true, "rootControllerIndex.instanceType": false,
	} {
		_, err := DecodeMessage(without(t, whole, path))
		check.That(t, (err != nil) == required, "without %s: %v", path, err)
	}
}

// without removes the member at a path.
func without(t *testing.T, doc, path string) []byte {
	t.Helper()
	var root map[string]any
	check.NoError(t, json.Unmarshal([]byte(doc), &root))
	at := root
	keys := strings.Split(path, ".")
	for _, k := range keys[:len(keys)-1] {
		at = at[k].(map[string]any)
	}
	delete(at, keys[len(keys)-1])
	out, err := json.Marshal(root)
	check.NoError(t, err)
	return out
}

func TestMessageStrictness(t *testing.T) {
	whole := oneMessage(t)
	for _, c := range []struct {
		name, old, new string
		ok             bool
	}{
		{"null revision", `"revision":"1-4108059ba300aaf942f14a65dde3c088"`, `"revision":null`, true},
		{"null content", `"content":{`, `"content":null,"x":{`, true},
		{"array content", `"content":{`, `"content":[1,2],"x":{`, true},
		{"null cause", `"blocking":true`, `"blocking":true,"cause":null`, true},
		{"lower-case rights", `"READ","PUT"`, `"read","Put"`, true},
		{"trace context", `"blocking":true`, `"blocking":true,"traceContext":{"a":"b"}`, true},
		{"action as text", `"action":{`, `"action":"guest/pkg/name","x":{`, true},
		{"white space", `{"action"`, "\t{ \r\n\"action\"", true},
		{"number for a flag", `"blocking":true`, `"blocking":1`, false},
		{"number for a revision", `"revision":"1-4108059ba300aaf942f14a65dde3c088"`, `"revision":1`, false},
		{"short id", `"activationId":"dc`, `"activationId":"d`, false},
		{"upper-case id", `"activationId":"dc`, `"activationId":"DC`, false},
		{"bad cause", `"blocking":true`, `"blocking":true,"cause":"x"`, false},
		{"unknown right", `"READ"`, `"FLY"`, false},
		{"short subject", `"subject":"guest"`, `"subject":"gues"`, false},
		{"bad name", `"name":"inpkg"`, `"name":"in/pkg"`, false},
		{"bad path", `"path":"guest/pkg"`, `"path":"guest/ pkg"`, false},
		{"bad version", `"version":"0.0.1"`, `"version":"0.0.0"`, false},
		{"bad binding", `"binding":"guest/bound"`, `"binding":"/"`, false},
		{"other instance", `"instanceType":"controller"`, `"instanceType":"invoker"`, false},
		{"controller id", `"asString":"0"`, `"asString":"a/b"`, false},
		{"limits are no object", `"limits":{}`, `"limits":[]`, false},
		{"bad limit", `"limits":{}`, `"limits":{"maxPayloadSize":"1 parsec"}`, false},
		{"locked to a number", `"lockedArgs":{}`, `"lockedArgs":{"a":1}`, false},
		{"text after", `"subject":"guest"}}`, `"subject":"guest"}}x`, false},
		{"array", whole, `[]`, false},
		{"nothing", whole, ``, false},
	} {
		check.Contains(check.Must(t), whole, c.old, "%s", c.name)
		_, err := DecodeMessage([]byte(strings.Replace(whole, c.old, c.new, 1)))
		check.That(t, (err == nil) == c.ok, "%s: %v", c.name, err)
	}
}

// TestDamagedMessages flips and cuts each byte of captured messages: none may
// make the decoder fail in any way but an error, and an error contains
// no secret.
func TestDamagedMessages(t *testing.T) {
	whole := oneMessage(t)
	for i := range len(whole) {
		_, err := DecodeMessage([]byte(whole[:i]))
		check.That(t, err != nil, "decoded the first %d bytes", i)
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			damaged := []byte(whole)
			damaged[i] ^= flip
			_, err := DecodeMessage(damaged)
			if err != nil && strings.Contains(err.Error(), "123zO3xZCLrMN6v2") {
				t.Fatalf("key in %v", err)
			}
		}
	}
}

// TestErrorsNameKnownMembersOnly: damage can make any text the name of a member, an
// API key for one. The names that errors have are the message's own.
func TestErrorsNameKnownMembersOnly(t *testing.T) {
	whole := oneMessage(t)
	const secret = "123zO3xZCLrMN6v2"
	for name, damaged := range map[string]string{
		"of the key":      strings.Replace(whole, `"authkey":{`, `"authkey":{"`+secret+`":?,`, 1),
		"of an argument":  strings.Replace(whole, `"lockedArgs":{`, `"lockedArgs":{"`+secret+`":1,`, 1),
		"of a limit":      strings.Replace(whole, `"limits":{`, `"limits":{"`+secret+`":?,`, 1),
		"of a parameter":  strings.Replace(whole, `"content":{`, `"content":{"a":{"`+secret+`":?},`, 1),
		"of the message":  strings.Replace(whole, `{`, `{"`+secret+`":?,`, 1),
		"of known fields": strings.Replace(whole, `"blocking":`, `"blocking":"`+secret+`","x":`, 1),
	} {
		_, err := DecodeMessage([]byte(damaged))
		check.That(check.Must(t), damaged != whole, "%s: the message is not damaged", name)
		check.That(check.Must(t), err != nil, "%s: the message is not damaged", name)
		check.Lacks(t, err.Error(), secret, "%s: secret", name)
	}
	_, err := DecodeMessage([]byte(strings.Replace(whole, `"subject":`, `"subject":?`, 1)))
	check.ErrorContains(t, err, "user: subject: offset")
}

func TestDecodedMessage(t *testing.T) {
	m, err := DecodeMessage([]byte(oneMessage(t)))
	check.NoError(t, err)
	check.Equal(t, m.Action.FQN(), "guest/pkg/inpkg")
	check.Equal(t, m.Action.Binding, "guest/bound")
	check.Equal(t, m.Version(), "0.0.1")
	check.Equal(t, m.Controller, "0")
	check.That(check.Must(t), m.Blocking, "%+v", m)
	check.That(t, !m.CausedBySequence(), "%+v", m)
	check.Equal(t, m.User.Subject, "guest")
	check.Equal(t, m.User.Namespace.Name, "guest")
	check.Equal(t, len(m.User.Rights), 4)
	check.That(t, m.User.Limits.StoresActivations(), "%+v", m)
	key := m.User.AuthKey.Members()
	check.Equal(check.Must(t), len(key), 1, "auth key")
	check.Equal(t, key[0].Key, "api_key", "auth key")
	check.That(t, strings.HasPrefix(string(key[0].Value), `"23bc46b1-`), "auth key")
	check.Lacks(t, m.User.AuthKey.String()+m.User.AuthKey.GoString(), "23bc", "the key is printed")
}

func TestAuthKeyIsFreeForm(t *testing.T) {
	custom := `{"token":{"a":[1]},"api_key":"k","token":"last"}`
	m, err := DecodeMessage([]byte(strings.Replace(oneMessage(t), `"authkey":{`, `"authkey":`+custom+`,"x":{`, 1)))
	check.NoError(t, err)
	got := m.User.AuthKey.Members()
	check.Equal(check.Must(t), len(got), 2)
	check.Equal(t, got[0].Key, "token")
	check.Equal(t, string(got[0].Value), `"last"`)
	check.Equal(t, string(got[1].Value), `"k"`)
	check.That(t, !m.User.AuthKey.Equal(NewAuthKey("k")), "two keys are equal")
	check.That(t, NewAuthKey("k").Equal(NewAuthKey("k")), "a key is not equal to itself")
}

func TestMessageErrorNamesTheField(t *testing.T) {
	_, err := DecodeMessage([]byte(strings.Replace(oneMessage(t), `"uuid":"`, `"uuid":5,"x":"`, 1)))
	check.ErrorContains(t, err, "user: namespace: uuid:")
}
