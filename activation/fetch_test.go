package activation

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
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
		if a.Kind != kind {
			t.Errorf("got %s, want %s", a.Kind, kind)
		}
		if got := string(a.Encode()); got != text {
			t.Errorf("%s is written as %s", kind, got)
		}
		if has := a.Message != nil && a.JSON() != nil; has != (kind == Fetched) {
			t.Errorf("%s has an activation: %v", kind, has)
		}
	}
	a, err := DecodeFetchAnswer(NewFetchAnswer([]byte(oneMessage(t))).Encode())
	if err != nil {
		t.Fatal(err)
	}
	if got := string(a.JSON()); got != oneMessage(t) {
		t.Errorf("the message became %s", got)
	}
	if got, want := a.Message.ActivationID, mustDecode(t, oneMessage(t)).ActivationID; got != want {
		t.Errorf("the activation is %s, want %s", got, want)
	}
}

func mustDecode(t *testing.T, text string) *Message {
	t.Helper()
	m, err := DecodeMessage([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFetchAnswersStrictness(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"message":null}`, `{"message":"x"}`, `{"message":{}}`, `{"message":{"type":"Other"}}`,
		`{"message":{"type":1}}`, `{"message":{"type":""}}`, `{"message":{"activationId":"1"}}`,
		`{"message":{"activationId":"1","type":"NoMemoryQueue"}}`,
	} {
		if a, err := DecodeFetchAnswer([]byte(text)); err == nil {
			t.Errorf("%s is read as %s", text, a)
		}
	}
}

// TestFetchAnswerPrintsNoSecret: an activation's parameters can be secret.
func TestFetchAnswerPrintsNoSecret(t *testing.T) {
	a, err := DecodeFetchAnswer([]byte(`{"message":` + oneMessage(t) + `}`))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "%v %+v %#v %s", a, a, a, a)
	if got, want := text.String(), "fetched fetched fetched fetched"; got != want {
		t.Errorf("printed as %s, want %s", got, want)
	}
	const secret = "hush-hush"
	broken := strings.Replace(oneMessage(t), `"blocking":`, `"blocking":"`+secret+`","x":`, 1)
	if _, err := DecodeFetchAnswer([]byte(`{"message":` + broken + `}`)); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("the error is %v", err)
	}
}

func FuzzDecodeFetchAnswer(f *testing.F) {
	for kind := NoActivation; kind <= ActionMismatch; kind++ {
		f.Add(FetchAnswer{Kind: kind}.Encode())
	}
	f.Add([]byte(`{"message":` + oneMessage(f) + `}`))
	fuzzCodec(f, DecodeFetchAnswer, FetchAnswer.Encode, func(FetchAnswer) {})
}
