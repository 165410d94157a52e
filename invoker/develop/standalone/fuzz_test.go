package standalone

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func FuzzAPI(f *testing.F) {
	s, err := Start(f.Context(), Options{Data: f.TempDir(), Runtime: "process"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Stop(f.Context()) })
	f.Add("PUT", "actions/a?overwrite=true", []byte(`{"exec":{"kind":"nodejs:20","code":"x"}}`))
	f.Add("PUT", "packages/p?overwrite=true", []byte(`{"binding":{"namespace":"_","name":"q"}}`))
	f.Add("PUT", "packages/p?overwrite=true", []byte(`{"parameters":[{"key":"k","value":[]}]}`))
	f.Add("POST", "actions/a?blocking=true&result=true&timeout=1", []byte(`{"a":[1e400]}`))
	f.Add("GET", "activations?limit=1&skip=2&since=3&upto=4&name=a/b&docs=true", []byte(``))
	f.Add("DELETE", "actions/p/a", []byte(``))
	key := s.Info().Guest()
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		req, err := http.NewRequest(method, s.Info().APIHost+"/api/v1/namespaces/_/"+path, bytes.NewReader(body))
		if err != nil {
			return
		}
		req.SetBasicAuth(key.UUID, key.Key)
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return // not HTTP
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == 500 {
			t.Fatalf("%s %s %q: %s", method, path, body, text)
		}
		if strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") && len(text) > 0 && !json.Valid(text) {
			t.Fatalf("%s %s %q: no JSON: %q", method, path, body, text)
		}
	})
}
