// The greeter is a native action: a program that is run once for each
// activation with the arguments as JSON in its one argument, and prints the
// result as its last line.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	var p struct{ Name string }
	if err := json.Unmarshal([]byte(os.Args[1]), &p); err != nil {
		fmt.Println(`{"error":"no arguments"}`)
		return
	}
	fmt.Println("hello", p.Name)
	fmt.Printf("{\"greeting\":%q}\n", "hi "+p.Name)
}
