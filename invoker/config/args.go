package config

import (
	"fmt"
	"strconv"
	"strings"
)

// parseArgs reads the identity arguments in any order, as "--name value" or
// "--name=value". The last one of a kind wins; blank means unset.
func parseArgs(args []string, id *Identity) error {
	given := map[string]string{}
	for i := 0; i < len(args); i++ {
		name, v, joined := strings.Cut(args[i], "=")
		switch name {
		case "--id", "--uniqueName", "--displayedName", "--overwriteId":
		default:
			return argsError(args)
		}
		if !joined {
			if i++; i == len(args) {
				return argsError(args)
			}
			v = args[i]
		}
		given[name] = strings.TrimSpace(v)
	}
	id.UniqueName, id.DisplayedName = given["--uniqueName"], given["--displayedName"]
	var err error
	if id.ID, err = number(given["--id"]); err != nil {
		return argsError(args)
	}
	if id.OverwriteID, err = number(given["--overwriteId"]); err != nil {
		return argsError(args)
	}
	return nil
}

func number(s string) (*int, error) {
	if s == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 0 {
		return nil, errBad
	}
	i := int(n)
	return &i, nil
}

// badArgs are the original's words, which begin an error as no other does here.
const badArgs = "Error processing command line arguments"

func argsError(args []string) error {
	return fmt.Errorf("%s List(%s); "+
		"expected [--uniqueName S] [--displayedName S] [--id N] [--overwriteId N], N an integer from 0",
		badArgs, strings.Join(args, ", "))
}
