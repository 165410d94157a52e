package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/doctor"
)

// settings are what an invoker of this host gets: this environment, or, where
// this has nothing of a deployment, the file that its service reads and that of
// its number. What lies in a folder beside a file, FILE.credentials instead of
// FILE.env, are its passwords. The source is the file, if one was read.
func settings(envFile, id string) (environ []string, source string, err error) {
	environ = os.Environ()
	if envFile == "" && lookup(environ, "KAFKA_HOSTS") != "" {
		return withOwnCredentials(environ)
	}
	path := cmp.Or(envFile, doctor.SettingsFile)
	files := []string{path}
	if id != "" {
		files = append(files, strings.TrimSuffix(path, ".env")+id+".env")
	}
	for i, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && (i > 0 || envFile == "") {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("read settings: %w", err)
		}
		more, err := parseEnvFile(string(text))
		if err != nil {
			return nil, "", fmt.Errorf("read settings of %s: %w", file, err)
		}
		environ, source = append(environ, more...), path
		passwords := strings.TrimSuffix(file, ".env") + ".credentials"
		if found, err := os.Stat(passwords); err != nil || !found.IsDir() {
			continue
		}
		if environ, err = withCredentials(environ, passwords); err != nil {
			return nil, "", err
		}
	}
	environ, _, err = withOwnCredentials(environ)
	return environ, source, err
}

// withOwnCredentials adds what a service manager keeps for this process.
func withOwnCredentials(environ []string) ([]string, string, error) {
	environ, err := withCredentials(environ, lookup(environ, "CREDENTIALS_DIRECTORY"))
	return environ, "", err
}
