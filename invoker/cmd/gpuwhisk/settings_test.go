package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The service's own file, that of the number, and the passwords beside it come
// in this order; an environment of a deployment comes alone.
func TestSettings(t *testing.T) {
	t.Setenv("KAFKA_HOSTS", "")
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	dir := t.TempDir()
	file := filepath.Join(dir, "invoker.env")
	for name, text := range map[string]string{
		"invoker.env":  "KAFKA_HOSTS=a:1\nPORT=12001\n",
		"invoker3.env": "PORT=12004\nCONFIG_whisk_couchdb_password=in the file\n",
		"invoker3.credentials/CONFIG_whisk_couchdb_password": "secret\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environ, source, err := settings(file, "3")
	if err != nil || source != file {
		t.Fatalf("source %q, error %v", source, err)
	}
	for name, want := range map[string]string{"KAFKA_HOSTS": "a:1", "PORT": "12004", "CONFIG_whisk_couchdb_password": "secret"} {
		if got := lookup(environ, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	environ, _, _ = settings(file, "4")
	for name, want := range map[string]string{"PORT": "12001", "CONFIG_whisk_couchdb_password": ""} {
		if got := lookup(environ, name); got != want {
			t.Errorf("another number gets %s=%s", name, got)
		}
	}
	if _, _, err := settings(filepath.Join(dir, "none.env"), ""); err == nil {
		t.Error("a file that was named and is not there is no error")
	}
	t.Setenv("KAFKA_HOSTS", "b:2")
	if environ, source, err := settings("", "3"); err != nil || source != "" || lookup(environ, "KAFKA_HOSTS") != "b:2" {
		t.Errorf("an environment of a deployment: source %q, error %v", source, err)
	}
}
