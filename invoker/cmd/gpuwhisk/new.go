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

// newCmd writes the files of a new function.
type newCmd struct {
	Name string `arg:"" help:"Name of the function and of its directory."`

	Kind string `default:"python-gpu" enum:"python-gpu" help:"Language and runtime (${enum})."`
	Dir  string `default:"." placeholder:"DIR" help:"Where to create the directory."`
}

// Help is the longer text of gpuwhisk new --help.
func (newCmd) Help() string {
	return `It creates a small function that uses the GPU through CuPy, or the CPU if there is
no GPU, with a test that runs on this machine. Then it prints the next steps. It
never overwrites files.

  gpuwhisk new infer               # infer/main.py and infer/test_main.py

examples/ has larger ones: PyTorch, CuPy, PTX, C++.`
}

// functionName matches the names that OpenWhisk accepts for an action, except names with
// blanks.
var functionName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_@.-]{0,254}$`)

// Validate checks the name.
func (c *newCmd) Validate() error {
	if c.Name == "" {
		return errors.New("give the name of the function")
	}
	if !functionName.MatchString(c.Name) {
		return fmt.Errorf("%q: a function's name begins with a letter, a digit or _, and may also contain @, . and -", c.Name)
	}
	return nil
}

// Run writes the files and prints the next steps.
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
