// Package examples holds the files of examples/python, which gpuwhisk new copies.
// Users read and try the other examples in their directories.
package examples

import "embed"

//go:embed python/main.py python/test_main.py
var files embed.FS

// Python is a function for python:3-gpu and its test, by file name.
func Python() map[string][]byte {
	all := map[string][]byte{}
	for _, name := range []string{"main.py", "test_main.py"} {
		b, err := files.ReadFile("python/" + name)
		if err != nil {
			panic(err) // it is not in the program, which the compiler has checked
		}
		all[name] = b
	}
	return all
}
