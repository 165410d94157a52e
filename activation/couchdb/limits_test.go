package couchdb

import (
	"log/slog"
	"testing"
)

func TestLimitsOfNamespaces(t *testing.T) {
	f := newFake(t)
	f.docs["subjects/small%2Flimits"] = `{"_id":"small/limits","_rev":"1-a","maxActionMemory":128,"warmedContainerKeepingCount":2,"warmedContainerKeepingTimeout":"1 minute"}`
	f.docs["subjects/odd%2Flimits"] = `{"maxActionMemory":"much"}`
	s, err := Open(Config{
		URL: f.URL, Username: fakeUser, Password: fakePass, Whisks: "whisks", Subjects: "subjects", Activations: "activations", Log: slog.New(slog.DiscardHandler),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Limits(t.Context(), "small")
	if err != nil || l.MaxMemoryMB == nil || *l.MaxMemoryMB != 128 || *l.KeptContainers != 2 || l.KeptTime.String() != "1m0s" {
		t.Errorf("%+v, %v", l, err)
	}
	for _, namespace := range []string{"odd", "none"} {
		if l, err := s.Limits(t.Context(), namespace); err != nil || l.MaxMemoryMB != nil {
			t.Errorf("%s: %+v, %v", namespace, l, err)
		}
	}
	f.inject(500)
	if _, err := s.Limits(t.Context(), "small"); err == nil {
		t.Error("limits of a database that fails")
	}
}
