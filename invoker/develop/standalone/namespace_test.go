package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

func TestNamespaceFlag(t *testing.T) {
	for text, want := range map[string]Namespace{
		"team:u:k:with:colons": {Name: "team", UUID: "u", Key: "k:with:colons"}, "team": {Name: "team"}, "guest:u:k": {Name: "guest", UUID: "u", Key: "k"},
	} {
		n, err := ParseNamespace(text)
		check.NoError(t, err, "%s", text)
		check.Equal(t, n, want, "%s", text)
	}
	for _, bad := range []string{"", ":u:k", "a:b", "a::k", "a/b"} {
		if _, err := ParseNamespace(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// restart returns the namespaces of a standalone that ran on a data directory.
func restart(t *testing.T, o Options) ([]Namespace, error) {
	t.Helper()
	o.Runtime = "process"
	s, err := Start(t.Context(), o)
	if err != nil {
		return nil, err
	}
	defer stop(t, s)
	for _, n := range s.Info().Namespaces {
		got := apiClient{t, s.Info().APIHost, n.AuthKey()}.do("GET", actions, "")
		check.Equal(t, got.status, 200, "the key of %s: %s", n.Name, got.body)
	}
	if s.Info().Guest().Key != sharedKey {
		got := apiClient{t, s.Info().APIHost, s.Info().Guest().UUID + ":" + sharedKey}.do("GET", actions, "")
		check.Equal(t, got.status, 401, "the key that every OpenWhisk has")
	}
	return s.Info().Namespaces, nil
}

// TestKeys: each data directory has its own lasting keys. A given key replaces the old
// one.
func TestKeys(t *testing.T) {
	o := Options{Data: t.TempDir(), Namespaces: []Namespace{{Name: "team"}}}
	first, err := restart(t, o)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(first), 2)
	check.Equal(t, first[0].Name, guest)
	check.AtLeast(t, len(first[0].Key), 64)
	check.That(t, first[0].Key != first[1].Key)
	text, err := os.ReadFile(filepath.Join(o.Data, "wskprops"))
	check.NoError(t, err)
	check.That(t, strings.HasPrefix(string(text), "APIHOST=http://127.0.0.1:"), "%q", text)
	check.That(t, strings.HasSuffix(string(text), "\nAUTH="+first[0].AuthKey()+"\n"), "%q", text)
	again, err := restart(t, o)
	check.NoError(t, err)
	check.EqualSlices(t, again, first)
	other, err := restart(t, Options{Data: t.TempDir()})
	check.NoError(t, err)
	check.That(t, other[0].UUID != first[0].UUID, "another data directory")
	check.That(t, other[0].Key != first[0].Key, "another data directory")

	o.Namespaces = []Namespace{{Name: "team", UUID: "u-team", Key: "k-team"}, {Name: "guest", UUID: "u", Key: sharedKey}}
	given, err := restart(t, o)
	check.NoError(t, err)
	check.Equal(t, given[0], o.Namespaces[1])
	check.Equal(t, given[1], o.Namespaces[0])
	o.Namespaces = nil // as in a directory of an earlier version
	replaced, err := restart(t, o)
	check.NoError(t, err)
	check.Equal(t, len(replaced), 1)
	check.Equal(t, replaced[0].UUID, "u")
	check.That(t, replaced[0].Key != sharedKey)
	info, err := os.Stat(filepath.Join(o.Data, "wskprops"))
	check.NoError(t, err)
	check.Equal(t, info.Mode().Perm(), 0o600)
}

// TestKeysElsewhere: a shared database keeps its keys, even the key that every OpenWhisk
// has.
func TestKeysElsewhere(t *testing.T) {
	main := begin(t, &fakeInvoker{}, nil)
	db, err := couchdb.New(main.Info().Database)
	check.NoError(t, err)
	t.Cleanup(db.Close)
	theirs := Namespace{Name: "guest", UUID: "u", Key: sharedKey}
	check.NoError(t, db.PutSubject(t.Context(), couchdb.Subject{Name: guest, Namespaces: []Namespace{theirs}}))
	at := strings.Replace(main.Info().Database.URL, "://", "://"+main.Info().Database.User+":"+main.Info().Database.Password+"@", 1)
	o := Options{Data: t.TempDir(), CouchDB: at, Namespaces: []Namespace{theirs}}
	same, err := restart(t, o)
	check.NoError(t, err)
	check.Equal(t, same[0], theirs)
	o.Namespaces = []Namespace{{Name: "new"}}
	made, err := restart(t, o)
	check.NoError(t, err)
	check.Equal(t, made[0], theirs)
	check.That(t, made[1].Key != "")
	o.Namespaces = []Namespace{{Name: "guest", UUID: "u", Key: "another"}}
	_, err = restart(t, o)
	check.That(check.Must(t), err != nil, "another key")
	check.That(t, strings.HasPrefix(err.Error(), "--namespace guest: "), "%v", err)
	check.Lacks(t, err.Error(), "another:")
}
