package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/doctor"
)

// settings returns the environment of an invoker of this host: the environment of this
// process or, if that has no KAFKA_HOSTS, the service's file and the file for the
// invoker's number. The directory FILE.credentials beside FILE.env contains the
// passwords. source is the path of the file, "" if no file was read.
func settings(envFile, id string) (environ []string, source string, err error) {
	environ = os.Environ()
	if envFile == "" && lookup(environ, "KAFKA_HOSTS") != "" {
		environ, err = withOwnCredentials(environ)
		return environ, "", err
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
	environ, err = withOwnCredentials(environ)
	return environ, source, err
}

// hostConfig loads the configuration of an invoker of this host, for commands that need
// only a part. Mistakes in other parts are ignored.
func hostConfig(envFile, id string) (*config.Config, error) {
	environ, _, err := settings(envFile, id)
	if err != nil {
		return nil, err
	}
	cfg, err := loadConfig(environ, nil)
	if cfg == nil {
		return nil, err
	}
	return cfg, nil
}

// withOwnCredentials adds the credentials that a service manager provides to this
// process.
func withOwnCredentials(environ []string) ([]string, error) {
	return withCredentials(environ, lookup(environ, "CREDENTIALS_DIRECTORY"))
}
