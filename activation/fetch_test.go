package activation

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestFetchAnswers(t *testing.T) {
	for text, kind := range map[string]FetchKind{
		`{"message":{"noActivationMessage":"no activation message exist","type":"NoActivationMessage"}}`: NoActivation,
		`{"message":{"noMemoryQueue":"no memory queue exist","type":"NoMemoryQueue"}}`:                   NoQueue,
		`{"message":{"actionMisMatch":"action version does not match","type":"ActionMismatch"}}`:         ActionMismatch,
		`{"message":` + oneMessage(t) + `}`:                                                              Fetched,
	} {
		a, err := DecodeFetchAnswer([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		check.Equal(t, a.Kind, kind)
		check.Equal(t, string(a.Encode()), text, "%s is written", kind)
		has := a.Message != nil && a.JSON() != nil
		check.That(t, has == (kind == Fetched), "%s has an activation: %v", kind, has)
	}
	a, err := DecodeFetchAnswer(NewFetchAnswer([]byte(oneMessage(t))).Encode())
	check.NoError(t, err)
	check.Equal(t, string(a.JSON()), oneMessage(t), "the message became")
	got, want := a.Message.ActivationID, mustDecode(t, oneMessage(t)).ActivationID
	check.Equal(t, got, want, "the activation")
}

func mustDecode(t *testing.T, text string) *Message {
	t.Helper()
	m, err := DecodeMessage([]byte(text))
	check.NoError(t, err)
	return m
}

func TestFetchAnswersStrictness(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"message":null}`, `{"message":"x"}`, `{"message":{}}`, `{"message":{"type":"Other"}}`,
		`{"message":{"type":1}}`, `{"message":{"type":""}}`, `{"message":{"activationId":"1"}}`,
		`{"message":{"activationId":"1","type":"NoMemoryQueue"}}`,
	} {
		a, err := DecodeFetchAnswer([]byte(text))
		check.That(t, err != nil, "%s is read as %s", text, a)
	}
}

// TestFetchAnswerPrintsNoSecret: an activation's parameters can be secret.
func TestFetchAnswerPrintsNoSecret(t *testing.T) {
	a, err := DecodeFetchAnswer([]byte(`{"message":` + oneMessage(t) + `}`))
	check.NoError(t, err)
	var text bytes.Buffer
	fmt.Fprintf(&text, "%v %+v %#v %s", a, a, a, a)
	got, want := text.String(), "fetched fetched fetched fetched"
	check.Equal(t, got, want)
	const secret = "hush-hush"
	broken := strings.Replace(oneMessage(t), `"blocking":`, `"blocking":"`+secret+`","x":`, 1)
	_, err = DecodeFetchAnswer([]byte(`{"message":` + broken + `}`))
	check.That(check.Must(t), err != nil, "the error is %v", err)
	check.Lacks(t, err.Error(), secret)
}

func FuzzDecodeFetchAnswer(f *testing.F) {
	for kind := NoActivation; kind <= ActionMismatch; kind++ {
		f.Add(FetchAnswer{Kind: kind}.Encode())
	}
	f.Add([]byte(`{"message":` + oneMessage(f) + `}`))
	fuzzCodec(f, DecodeFetchAnswer, FetchAnswer.Encode, func(FetchAnswer) {})
}
