package registry

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func TestMovesOn(t *testing.T) {
	for image, want := range map[string]bool{
		"a": true, "a/b": true, "a/b:latest": true, "a/b:1": false, "host:5000/a/b": true,
		"host:5000/a/b:1": false, "a@sha256:00": false, "host:5000/a:latest": true,
	} {
		check.Equal(t, MovesOn(image), want, "%s", image)
	}
}

// logins writes a config.json as docker login does.
func logins(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	check.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
	return dir
}

func basic(login string) string { return base64.StdEncoding.EncodeToString([]byte(login)) }

// Each registry sees its own login and no other one.
func TestLogins(t *testing.T) {
	dir := logins(t, `{"auths": {
		"https://index.docker.io/v1/": {"auth": "`+basic("hub:one")+`"},
		"registry.example.org:5000": {"auth": "`+basic("own:two")+`"}}}`)
	r, err := New(dir, nil)
	check.NoError(t, err)
	for image, want := range map[string]string{
		"openwhisk/python":                     "hub:one",
		"python:3":                             "hub:one",
		"registry.example.org:5000/a/b:1":      "own:two",
		"registry.example.org:5000/a/b@" + sha: "own:two",
		"registry.example.org/a/b":             "",
		"elsewhere.example.org/python":         "",
	} {
		_, login, err := r.Login(t.Context(), image)
		if err != nil {
			t.Errorf("%s: %v", image, err)
			continue
		}
		got := ""
		if login != auth.EmptyCredential {
			got = login.Username + ":" + login.Password
		}
		check.Equal(t, got, want, "%s is pulled", image)
	}
}

const sha = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestNoLogins(t *testing.T) {
	r, err := New(t.TempDir(), nil)
	check.NoError(t, err)
	_, login, err := r.Login(t.Context(), "a/b")
	check.Equal(t, login, auth.EmptyCredential)
	check.NoError(t, err, "login %v without a file", login)
}

// An unreadable file stops the start and does not show its content.
func TestLoginsUnreadable(t *testing.T) {
	dir := logins(t, `{"auths": {"a": {"auth": "c2VjcmV0`)
	_, err := New(dir, nil)
	check.ErrorContains(check.Must(t), err, filepath.Join(dir, "config.json"))
	check.Lacks(t, err.Error(), "c2VjcmV0")
}
