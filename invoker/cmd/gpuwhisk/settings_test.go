package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestSettings: the file of the service, the file of the number and the passwords beside
// them are read in this order. The environment of a deployment is used alone.
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
		check.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	environ, source, err := settings(file, "3")
	check.NoError(t, err)
	check.Equal(check.Must(t), source, file)
	for name, want := range map[string]string{"KAFKA_HOSTS": "a:1", "PORT": "12004", "CONFIG_whisk_couchdb_password": "secret"} {
		check.Equal(t, lookup(environ, name), want, "%s", name)
	}
	environ, _, _ = settings(file, "4")
	for name, want := range map[string]string{"PORT": "12001", "CONFIG_whisk_couchdb_password": ""} {
		check.Equal(t, lookup(environ, name), want, "another number: %s", name)
	}
	if _, _, err := settings(filepath.Join(dir, "none.env"), ""); err == nil {
		t.Error("no error for a file that was named and does not exist")
	}
	t.Setenv("KAFKA_HOSTS", "b:2")
	environ, source, err = settings("", "3")
	check.NoError(t, err, "an environment of a deployment")
	check.Equal(t, source, "", "an environment of a deployment")
	check.Equal(t, lookup(environ, "KAFKA_HOSTS"), "b:2")
}
