package rest

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// The following methods read parts of a request. The first error stays in r.err, so a
// handler checks for errors once, after it has read all parts.

func (r *request) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *request) malformed(name, format string, args ...any) {
	r.fail(entity.Bad("The query parameter '%s' was malformed:\n%s", name, fmt.Sprintf(format, args...)))
}

// body reads the whole body.
func (r *request) body() []byte {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		r.fail(fmt.Errorf("read request: %w", err))
	}
	return b
}

// Sizes of lists.
const (
	defaultLimit = 30
	maxLimit     = 200
)

// limit is the most that a list may have; 0 asks for as much as there may be.
func (r *request) limit(collection string) int {
	limit := r.whole("limit", defaultLimit, "The value '%s' is not an integer for "+collection+".")
	if limit < 0 || limit > maxLimit {
		r.malformed("limit", "The value '%d' is not in the range of 0 to %d for %s.", limit, maxLimit, collection)
	}
	if limit == 0 {
		return maxLimit
	}
	return limit
}

// skip is how much of a list is left out at its beginning.
func (r *request) skip(collection string) int {
	skip := r.whole("skip", 0, "The value '%s' is not an integer for "+collection+".")
	if skip < 0 {
		r.malformed("skip", "The value '%d' is not greater than or equal to 0 for %s.", skip, collection)
	}
	return skip
}

// whole returns the whole number in a query parameter. format is the text of the error
// for another value.
func (r *request) whole(name string, otherwise int, format string) int {
	v := r.query.Get(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		r.malformed(name, format, v)
	}
	return n
}

// flag reads a yes or no.
func (r *request) flag(name string, otherwise bool) bool {
	switch v := r.query.Get(name); strings.ToLower(v) {
	case "":
		return otherwise
	case "true", "yes", "on", "1":
		return true
	case "false", "no", "off", "0":
		return false
	default:
		r.malformed(name, "'%s' is not a valid Boolean value", v)
		return false
	}
}

// millis reads a moment, 0 when it is not given.
func (r *request) millis(name string) int64 {
	const wrong = "Parameter is not a valid value for epoch seconds: %s"
	n := r.whole(name, 0, wrong)
	if n < 0 {
		r.malformed(name, wrong, r.query.Get(name))
	}
	return int64(n)
}

// timeout reads how long a blocking call waits.
func (r *request) timeout(most time.Duration) time.Duration {
	wrong := fmt.Sprintf("Timeout must be number of milliseconds up to %d.", most.Milliseconds())
	n := r.whole("timeout", int(most.Milliseconds()), wrong+"%.0s")
	if n <= 0 || n > int(most.Milliseconds()) {
		r.malformed("timeout", "%s", wrong)
	}
	return time.Duration(n) * time.Millisecond
}
