package activation

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
)

// Keys decrypt parameters that were stored encrypted. A key that is nil is not
// configured.
type Keys struct {
	AES128 []byte
	AES256 []byte
}

// errLocked is a parameter that cannot be decrypted.
var errLocked = errors.New("parameter cannot be decrypted")

// Lengths of the initialisation vectors that the original writes: the long one
// is 128 bytes, where 128 bits were meant.
const (
	ivLength128 = 12
	ivLength256 = 128
)

// Unlock returns the content with its locked parameters decrypted. Values with an
// unknown algorithm, values other than strings, and content other than an object are
// returned unchanged (ParameterEncryption.unlock).
func Unlock(content json.RawMessage, locked []LockedArg, keys Keys) (json.RawMessage, error) {
	if len(locked) == 0 || len(content) == 0 || content[0] != '{' {
		return content, nil
	}
	members, err := Members(content)
	if err != nil {
		return nil, fmt.Errorf("unlock parameters: %w", err)
	}
	o := newObject(make([]byte, 0, len(content)))
	for _, m := range members {
		value, err := unlockMember(m, locked, keys)
		if err != nil {
			return nil, fmt.Errorf("unlock parameter %q: %w", m.Key, err)
		}
		o.raw(m.Key, value)
	}
	return o.end(), nil
}

func unlockMember(m Member, locked []LockedArg, keys Keys) (json.RawMessage, error) {
	for _, l := range locked {
		if l.Name != m.Key || m.Value[0] != '"' {
			continue
		}
		switch l.Algorithm {
		case "aes-128":
			return decrypt(m.Value, keys.AES128, ivLength128)
		case "aes-256":
			return decrypt(m.Value, keys.AES256, ivLength256)
		}
	}
	return m.Value, nil
}

// decrypt opens base64 of: length of the vector as four bytes, the vector,
// the ciphertext with its tag. The clear text is JSON.
func decrypt(value json.RawMessage, key []byte, ivLength int) (json.RawMessage, error) {
	if key == nil {
		return nil, fmt.Errorf("%w: no key is configured for its algorithm", errLocked)
	}
	p := newParser(value)
	sealed, err := base64.StdEncoding.DecodeString(p.str())
	if err != nil || len(sealed) < 4+ivLength {
		return nil, fmt.Errorf("%w: it is no sealed value", errLocked)
	}
	if binary.BigEndian.Uint32(sealed) != uint32(ivLength) {
		return nil, fmt.Errorf("%w: its vector is not %d bytes long", errLocked, ivLength)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("%w: the configured key has a wrong length", errLocked)
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, ivLength)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLocked, err)
	}
	clear, err := gcm.Open(nil, sealed[4:4+ivLength], sealed[4+ivLength:], nil)
	if err != nil {
		return nil, fmt.Errorf("%w: the key does not fit", errLocked)
	}
	q := newParser(clear)
	q.skip()
	if q.end() != nil {
		return nil, fmt.Errorf("%w: the sealed text is no JSON", errLocked)
	}
	return clear, nil
}
