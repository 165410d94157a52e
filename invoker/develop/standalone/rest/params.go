package rest

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// page is which part of a list is asked for.
type page struct{ skip, limit int }

// Sizes of lists.
const (
	defaultLimit = 30
	maxLimit     = 200
)

// page reads limit and skip. A limit of 0 asks for as much as there may be.
func (r *request) page(collection string) (page, error) {
	limit, err := r.whole("limit", defaultLimit, collection)
	if err != nil {
		return page{}, err
	}
	if limit < 0 || limit > maxLimit {
		return page{}, malformedParam("limit", fmt.Sprintf("The value '%d' is not in the range of 0 to %d for %s.", limit, maxLimit, collection))
	}
	if limit == 0 {
		limit = maxLimit
	}
	skip, err := r.whole("skip", 0, collection)
	if err != nil {
		return page{}, err
	}
	if skip < 0 {
		return page{}, malformedParam("skip", fmt.Sprintf("The value '%d' is not greater than or equal to 0 for %s.", skip, collection))
	}
	return page{skip, limit}, nil
}

func malformedParam(name, text string) *refusal {
	return bad(fmt.Sprintf("The query parameter '%s' was malformed:\n%s", name, text))
}

func (r *request) whole(name string, otherwise int, collection string) (int, error) {
	v := r.query.Get(name)
	if v == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, malformedParam(name, fmt.Sprintf("The value '%s' is not an integer for %s.", v, collection))
	}
	return n, nil
}

// flag reads a yes or no.
func (r *request) flag(name string, otherwise bool) (bool, error) {
	switch v := r.query.Get(name); strings.ToLower(v) {
	case "":
		return otherwise, nil
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	default:
		return false, malformedParam(name, "'"+v+"' is not a valid Boolean value")
	}
}

// millis reads a moment, 0 when it is not given.
func (r *request) millis(name string) (int64, error) {
	v := r.query.Get(name)
	if v == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return 0, malformedParam(name, "Parameter is not a valid value for epoch seconds: "+v)
	}
	return n, nil
}

// timeout reads how long a blocking call waits.
func (r *request) timeout(most time.Duration) (time.Duration, error) {
	v := r.query.Get("timeout")
	if v == "" {
		return most, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n <= 0 || time.Duration(n)*time.Millisecond > most {
		return 0, malformedParam("timeout", fmt.Sprintf("Timeout must be number of milliseconds up to %d.", most.Milliseconds()))
	}
	return time.Duration(n) * time.Millisecond, nil
}
