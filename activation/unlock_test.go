package activation

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// testKey is the key that the capture was made with.
func testKey() []byte { return bytes.Repeat([]byte{'k'}, 32) }

// TestUnlockCaptured decrypts parameters that the original encrypted.
func TestUnlockCaptured(t *testing.T) {
	found := false
	for _, c := range capturedRecords(t) {
		if c.scenario != "locked-args" || c.Topic != "invoker0" {
			continue
		}
		m, err := DecodeMessage([]byte(c.Value))
		check.NoError(t, err)
		clear, err := Unlock(m.Content, m.LockedArgs, Keys{AES256: testKey()})
		check.NoError(t, err)
		check.That(t, strings.HasPrefix(string(clear), `{"secret":"s3cr3t","obj":{"a":1},"ini":`), "content %s", clear)
		found = true
		_, err = Unlock(m.Content, m.LockedArgs, Keys{AES256: bytes.Repeat([]byte{'x'}, 32)})
		check.ErrorIs(t, err, errLocked, "wrong key")
	}
	check.That(t, found, "no captured message")
}

// sealed encrypts as controllers do.
func sealed(t *testing.T, key []byte, ivLength int, clear string) json.RawMessage {
	t.Helper()
	block, err := aes.NewCipher(key)
	check.NoError(t, err)
	gcm, err := cipher.NewGCMWithNonceSize(block, ivLength)
	check.NoError(t, err)
	iv := bytes.Repeat([]byte{7}, ivLength)
	out := binary.BigEndian.AppendUint32(nil, uint32(ivLength))
	out = append(out, iv...)
	out = gcm.Seal(out, iv, []byte(clear), nil)
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(out) + `"`)
}

func TestUnlock(t *testing.T) {
	keys := Keys{AES128: bytes.Repeat([]byte{'a'}, 16), AES256: testKey()}
	short := sealed(t, keys.AES128, ivLength128, `{"x":[1]}`)
	long := sealed(t, keys.AES256, ivLength256, `"s"`)
	for _, c := range []struct {
		name, content, want string
		locked              []LockedArg
		keys                Keys
		locks               bool
	}{
		{"aes-128", `{"p":` + string(short) + `,"q":1e3}`, `{"p":{"x":[1]},"q":1e3}`, []LockedArg{{"p", "aes-128"}}, keys, false},
		{"aes-256", `{"p":` + string(long) + `}`, `{"p":"s"}`, []LockedArg{{"p", "aes-256"}}, keys, false},
		{"unknown algorithm", `{"p":"x"}`, `{"p":"x"}`, []LockedArg{{"p", "rot13"}}, keys, false},
		{"no string", `{"p":5}`, `{"p":5}`, []LockedArg{{"p", "aes-256"}}, keys, false},
		{"array", `[1]`, `[1]`, []LockedArg{{"p", "aes-256"}}, keys, false},
		{"nothing locked", `{"p": 1}`, `{"p": 1}`, nil, keys, false},
		{"no content", ``, ``, []LockedArg{{"p", "aes-256"}}, keys, false},
		{"no key", `{"p":` + string(long) + `}`, ``, []LockedArg{{"p", "aes-256"}}, Keys{}, true},
		{"other vector", `{"p":` + string(short) + `}`, ``, []LockedArg{{"p", "aes-256"}}, keys, true},
		{"no base64", `{"p":"%%"}`, ``, []LockedArg{{"p", "aes-256"}}, keys, true},
		{"sealed no json", `{"p":` + string(sealed(t, keys.AES128, ivLength128, `{`)) + `}`, ``, []LockedArg{{"p", "aes-128"}}, keys, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Unlock(json.RawMessage(c.content), c.locked, c.keys)
			if c.locks {
				check.ErrorIs(t, err, errLocked)
				check.Lacks(t, err.Error(), "%%")
				return
			}
			check.NoError(t, err, "got %s, want %s", got, c.want)
			check.Equal(t, string(got), c.want)
		})
	}
}
