// Package check compares the values of a test with the expected ones. The message
// of a failed check has the expression in the test and both values. Only tests
// import the package.
//
// A test continues after a failed check. Pass Must(t) instead of t if the rest of
// the test would be meaningless after a failure. Every check accepts a format and
// its arguments after the values; that text is put before the message.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

type must struct{ testing.TB }

// Must returns t such that a failed check ends the test.
func Must(t testing.TB) testing.TB { return must{t} }

// Errorf implements testing.TB.
func (m must) Errorf(format string, args ...any) {
	m.Helper()
	m.Fatalf(format, args...)
}

// NoError ends the test if there is an error.
func NoError(t testing.TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", subject(about), err)
	}
}

// ErrorIs fails unless errors.Is(err, target).
func ErrorIs(t testing.TB, err, target error, about ...any) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s is %v, want %v", subject(about), err, target)
	}
}

// ErrorContains fails unless there is an error with the part in its text.
func ErrorContains(t testing.TB, err error, part string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%s is %v, want %q in it", subject(about), err, part)
	}
}

// Equal fails unless got == want.
func Equal[T comparable](t testing.TB, got, want T, about ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %s, want %s", subject(about), text(got), text(want))
	}
}

// EqualSlices fails unless both have the same elements in the same order.
func EqualSlices[S ~[]E, E comparable](t testing.TB, got, want S, about ...any) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s is\n%s, want\n%s", subject(about), text(got), text(want))
	}
}

// DeepEqual fails unless reflect.DeepEqual holds.
func DeepEqual(t testing.TB, got, want any, about ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s is\n%s, want\n%s", subject(about), text(got), text(want))
	}
}

// Less fails unless got < bound.
func Less[T cmp.Ordered](t testing.TB, got, bound T, about ...any) {
	t.Helper()
	if !(got < bound) {
		t.Errorf("%s is %v, want < %v", subject(about), got, bound)
	}
}

// AtMost fails unless got <= bound.
func AtMost[T cmp.Ordered](t testing.TB, got, bound T, about ...any) {
	t.Helper()
	if !(got <= bound) {
		t.Errorf("%s is %v, want <= %v", subject(about), got, bound)
	}
}

// Greater fails unless got > bound.
func Greater[T cmp.Ordered](t testing.TB, got, bound T, about ...any) {
	t.Helper()
	if !(got > bound) {
		t.Errorf("%s is %v, want > %v", subject(about), got, bound)
	}
}

// AtLeast fails unless got >= bound.
func AtLeast[T cmp.Ordered](t testing.TB, got, bound T, about ...any) {
	t.Helper()
	if !(got >= bound) {
		t.Errorf("%s is %v, want >= %v", subject(about), got, bound)
	}
}

// Contains fails unless the text has the part.
func Contains(t testing.TB, got, part string, about ...any) {
	t.Helper()
	if !strings.Contains(got, part) {
		t.Errorf("%s is %q, want %q in it", subject(about), got, part)
	}
}

// Lacks fails if the text has the part.
func Lacks(t testing.TB, got, part string, about ...any) {
	t.Helper()
	if strings.Contains(got, part) {
		t.Errorf("%s is %q, want it without %q", subject(about), got, part)
	}
}

// Includes fails unless got contains the element.
func Includes[S ~[]E, E comparable](t testing.TB, got S, element E, about ...any) {
	t.Helper()
	if !slices.Contains(got, element) {
		t.Errorf("%s is %s, want %s among them", subject(about), text(got), text(element))
	}
}

// That fails unless the condition holds.
func That(t testing.TB, condition bool, about ...any) {
	t.Helper()
	if !condition {
		t.Errorf("%s does not hold", subject(about))
	}
}

// Receive returns the next value of the channel, or the zero value if the channel
// is closed. It ends the test if nothing arrives within peertest.WaitLimit.
func Receive[T any](t testing.TB, from <-chan T, about ...any) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(peertest.WaitLimit):
		t.Fatalf("%s: nothing came within %v", subject(about), peertest.WaitLimit)
	}
	return v
}

// text formats a value for a message. Strings are quoted, so that blanks and line
// ends can be seen.
func text(v any) string {
	switch v.(type) {
	case string, []string:
		return fmt.Sprintf("%q", v)
	case error:
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%+v", v)
}
