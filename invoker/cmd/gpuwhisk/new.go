package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/gpuwhisk/gpuwhisk/examples"
)

// newCmd writes a function to start from.
type newCmd struct {
	Name string `arg:"" help:"Name of the function, and of the directory that is made."`

	Kind string `default:"python-gpu" enum:"python-gpu" help:"What to write it in (${enum})."`
	Dir  string `default:"." placeholder:"DIR" help:"Where to make the directory."`
}

// Help is the longer text of gpuwhisk new --help.
func (newCmd) Help() string {
	return `It writes a small function that uses the GPU through CuPy, and the CPU where
there is none, with a test that runs on this machine; then it prints what to do
next. Nothing that exists is overwritten.

  gpuwhisk new infer               # infer/main.py and infer/test_main.py

examples/ has larger ones: PyTorch, CuPy, PTX, C++.`
}

// functionName is what OpenWhisk accepts as the name of an action, without blanks.
var functionName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_@.-]{0,254}$`)

// Validate checks the name.
func (c *newCmd) Validate() error {
	if !functionName.MatchString(c.Name) {
		return fmt.Errorf("%q: a function's name begins with a letter, a digit or _, and has those, @, . and -", c.Name)
	}
	return nil
}

// Run writes the files and prints what comes next.
func (c *newCmd) Run() error { return c.write(os.Stdout) }

func (c *newCmd) write(out io.Writer) error {
	dir := filepath.Join(c.Dir, c.Name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already: choose another name, or another directory with --dir", dir)
		}
		return fmt.Errorf("make directory: %w", err)
	}
	files := examples.Python()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := bytes.ReplaceAll(files[name], []byte("NAME"), []byte(c.Name))
		text = bytes.ReplaceAll(text, []byte("DIRECTORY"), []byte(dir))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			return fmt.Errorf("write function: %w", err)
		}
		fmt.Fprintln(out, "wrote", filepath.Join(dir, name))
	}
	_, err := fmt.Fprintf(out, `
Next, with a gpuwhisk standalone or any OpenWhisk that wsk is set to:

  python3 -m unittest discover -s %s
  wsk action create %s %s --kind python:3-gpu -a gpu true -a invoker-resources '["gpu"]'
  wsk action invoke %s --result -p numbers '[3, 4]'
`, dir, c.Name, filepath.Join(dir, "main.py"), c.Name)
	return err
}
