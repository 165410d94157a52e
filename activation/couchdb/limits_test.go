package couchdb

import (
	"log/slog"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestLimitsOfNamespaces(t *testing.T) {
	f := newFake(t)
	f.docs["subjects/small%2Flimits"] = `{"_id":"small/limits","_rev":"1-a","maxActionMemory":128,"warmedContainerKeepingCount":2,"warmedContainerKeepingTimeout":"1 minute"}`
	f.docs["subjects/odd%2Flimits"] = `{"maxActionMemory":"much"}`
	s, err := Open(Config{
		URL: f.URL, Username: fakeUser, Password: fakePass, Whisks: "whisks", Subjects: "subjects", Activations: "activations", Log: slog.New(slog.DiscardHandler),
	}, nil)
	check.NoError(t, err)
	defer s.Close()
	l, err := s.Limits(t.Context(), "small")
	check.NoError(t, err)
	check.That(check.Must(t), l.MaxMemoryMB != nil, "%+v, %v", l, err)
	check.Equal(t, *l.MaxMemoryMB, 128)
	check.Equal(t, *l.KeptContainers, 2)
	check.Equal(t, l.KeptTime.String(), "1m0s")
	for _, namespace := range []string{"odd", "none"} {
		l, err := s.Limits(t.Context(), namespace)
		check.NoError(t, err, "%s: %+v", namespace, l)
		check.That(t, l.MaxMemoryMB == nil, "%s: %+v, %v", namespace, l, err)
	}
	f.inject(500)
	_, err = s.Limits(t.Context(), "small")
	check.That(t, err != nil, "limits of a database that fails")
}
