package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

func TestNamespaceFlag(t *testing.T) {
	for text, want := range map[string]Namespace{
		"team:u:k:with:colons": {Name: "team", UUID: "u", Key: "k:with:colons"}, "team": {Name: "team"}, "guest:u:k": {Name: "guest", UUID: "u", Key: "k"},
	} {
		if n, err := ParseNamespace(text); err != nil || n != want {
			t.Errorf("%s: %+v, %v", text, n, err)
		}
	}
	for _, bad := range []string{"", ":u:k", "a:b", "a::k", "a/b"} {
		if _, err := ParseNamespace(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// restart gives the namespaces of a standalone that ran on a data directory.
func restart(t *testing.T, o Options) ([]Namespace, error) {
	t.Helper()
	o.Runtime = "process"
	s, err := Start(t.Context(), o)
	if err != nil {
		return nil, err
	}
	defer stop(t, s)
	for _, n := range s.Info().Namespaces {
		if got := (apiClient{t, s.Info().APIHost, n.AuthKey()}).do("GET", actions, ""); got.status != 200 {
			t.Errorf("the key of %s: %d %s", n.Name, got.status, got.body)
		}
	}
	wrong := apiClient{t, s.Info().APIHost, s.Info().Guest().UUID + ":" + sharedKey}
	if got := wrong.do("GET", actions, ""); got.status != 401 && s.Info().Guest().Key != sharedKey {
		t.Errorf("the key that every OpenWhisk has: %d", got.status)
	}
	return s.Info().Namespaces, nil
}

// TestKeys: each data directory has keys of its own, which stay; a key that is given
// replaces them.
func TestKeys(t *testing.T) {
	o := Options{Data: t.TempDir(), Namespaces: []Namespace{{Name: "team"}}}
	first, err := restart(t, o)
	if err != nil || len(first) != 2 || first[0].Name != guest || len(first[0].Key) < 64 || first[0].Key == first[1].Key {
		t.Fatalf("%+v, %v", first, err)
	}
	text, err := os.ReadFile(filepath.Join(o.Data, "wskprops"))
	if err != nil || !strings.HasPrefix(string(text), "APIHOST=http://127.0.0.1:") || !strings.HasSuffix(string(text), "\nAUTH="+first[0].AuthKey()+"\n") {
		t.Errorf("wsk's settings: %q, %v", text, err)
	}
	if again, err := restart(t, o); err != nil || fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("then %+v, %v", again, err)
	}
	other, err := restart(t, Options{Data: t.TempDir()})
	if err != nil || other[0].UUID == first[0].UUID || other[0].Key == first[0].Key {
		t.Errorf("another data directory has %+v, %v", other, err)
	}

	o.Namespaces = []Namespace{{Name: "team", UUID: "u-team", Key: "k-team"}, {Name: "guest", UUID: "u", Key: sharedKey}}
	if given, err := restart(t, o); err != nil || given[0] != o.Namespaces[1] || given[1] != o.Namespaces[0] {
		t.Errorf("given: %+v, %v", given, err)
	}
	o.Namespaces = nil // as in a directory of an earlier version
	replaced, err := restart(t, o)
	if err != nil || replaced[0].UUID != "u" || replaced[0].Key == sharedKey || len(replaced) != 1 {
		t.Errorf("after the key that every OpenWhisk has: %+v, %v", replaced, err)
	}
	info, err := os.Stat(filepath.Join(o.Data, "wskprops"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestKeysElsewhere: a database that others use, too, keeps its keys, even the one that
// every OpenWhisk has.
func TestKeysElsewhere(t *testing.T) {
	main := begin(t, &fakeInvoker{}, nil)
	db, err := couchdb.New(main.Info().Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	theirs := Namespace{Name: "guest", UUID: "u", Key: sharedKey}
	if err := db.PutSubject(t.Context(), couchdb.Subject{Name: guest, Namespaces: []Namespace{theirs}}); err != nil {
		t.Fatal(err)
	}
	at := strings.Replace(main.Info().Database.URL, "://", "://"+main.Info().Database.User+":"+main.Info().Database.Password+"@", 1)
	o := Options{Data: t.TempDir(), CouchDB: at, Namespaces: []Namespace{theirs}}
	if same, err := restart(t, o); err != nil || same[0] != theirs {
		t.Errorf("the same key: %+v, %v", same, err)
	}
	o.Namespaces = []Namespace{{Name: "new"}}
	made, err := restart(t, o)
	if err != nil || made[0] != theirs || made[1].Key == "" {
		t.Errorf("%+v, %v", made, err)
	}
	o.Namespaces = []Namespace{{Name: "guest", UUID: "u", Key: "another"}}
	if _, err := restart(t, o); err == nil || !strings.HasPrefix(err.Error(), "--namespace guest: ") || strings.Contains(err.Error(), "another:") {
		t.Errorf("another key: %v", err)
	}
}
