package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/doctor"
)

// settings returns the environment of an invoker of this host: that of this process
// or, where it names no Kafka, the service's file and the one of the invoker's number.
// The folder FILE.credentials beside FILE.env has the passwords. The source is the
// file, if one was read.
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

// hostConfig is the configuration of an invoker of this host, for commands that need
// a part of it: what is wrong with the others does not matter to them.
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

// withOwnCredentials adds what a service manager keeps for this process.
func withOwnCredentials(environ []string) ([]string, error) {
	return withCredentials(environ, lookup(environ, "CREDENTIALS_DIRECTORY"))
}
