package start

import "testing"

func TestWordsRoundTrip(t *testing.T) {
	for k := range Kinds {
		kind := Kind(k)
		got, err := Parse(kind.String())
		if err != nil || got != kind {
			t.Errorf("%v: parsed %v, %v", kind, got, err)
		}
	}
	if _, err := Parse("warm"); err == nil {
		t.Error("parsed a word that is none")
	}
}
