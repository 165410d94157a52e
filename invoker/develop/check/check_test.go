package check_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// report is a testing.TB that records failures instead of reporting them.
type report struct {
	testing.TB
	text  string
	ended bool
}

func (r *report) Helper() {}

func (r *report) Errorf(format string, args ...any) { r.text += fmt.Sprintf(format, args...) }

func (r *report) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.ended = true
}

// TestFailures: the message of a failed check has the expression, the text of the
// test, and both values.
func TestFailures(t *testing.T) {
	n, name, names, err := 2, "a b", []string{"a", "b"}, errors.New("broken")
	for want, failed := range map[string]func(*report){
		`n is 2, want 3`:                          func(r *report) { check.Equal(r, n, 3) },
		`case 7: n+1 is 3, want 2`:                func(r *report) { check.Equal(r, n+1, 2, "case %d", 7) },
		`name is "a b", want "ab"`:                func(r *report) { check.Equal(r, name, "ab") },
		"names is\n[\"a\" \"b\"], want\n[\"a\"]":  func(r *report) { check.EqualSlices(r, names, []string{"a"}) },
		"names is\n[\"a\" \"b\"], want\n[]":       func(r *report) { check.DeepEqual(r, names, []string{}) },
		`n is 2, want < 2`:                        func(r *report) { check.Less(r, n, 2) },
		`n is 2, want <= 1`:                       func(r *report) { check.AtMost(r, n, 1) },
		`n is 2, want > 2`:                        func(r *report) { check.Greater(r, n, 2) },
		`n is 2, want >= 3`:                       func(r *report) { check.AtLeast(r, n, 3) },
		`name is "a b", want "c" in it`:           func(r *report) { check.Contains(r, name, "c") },
		`name is "a b", want it without "b"`:      func(r *report) { check.Lacks(r, name, "b") },
		`names is ["a" "b"], want "c" among them`: func(r *report) { check.Includes(r, names, "c") },
		`err is broken, want EOF`:                 func(r *report) { check.ErrorIs(r, err, io.EOF) },
		`err is broken, want "end" in it`:         func(r *report) { check.ErrorContains(r, err, "end") },
		`n > 2 does not hold`:                     func(r *report) { check.That(r, n > 2) },
		`written: err: broken`:                    func(r *report) { check.NoError(r, err, "written") },
	} {
		var r report
		failed(&r)
		if r.text != want {
			t.Errorf("reported %q, want %q", r.text, want)
		}
	}
}

// TestSilent: a check that succeeds reports nothing.
func TestSilent(t *testing.T) {
	var r report
	check.Equal(&r, 2, 2)
	check.EqualSlices(&r, []int{}, nil)
	check.DeepEqual(&r, []int{1}, []int{1})
	check.Less(&r, 1, 2)
	check.AtMost(&r, 2, 2)
	check.Greater(&r, 3, 2)
	check.AtLeast(&r, 2, 2)
	check.Contains(&r, "abc", "b")
	check.Lacks(&r, "abc", "d")
	check.Includes(&r, []int{1, 2}, 2)
	check.ErrorIs(&r, fmt.Errorf("read: %w", io.EOF), io.EOF)
	check.ErrorContains(&r, io.EOF, "EOF")
	check.That(&r, true)
	check.NoError(&r, nil)
	if r.text != "" {
		t.Errorf("reported %q", r.text)
	}
}

// TestEnds: an error and a check with Must end the test, others let it go on.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		failed func(*report)
		ends   bool
	}{
		"check":   {func(r *report) { check.Equal(r, 1, 2) }, false},
		"must":    {func(r *report) { check.Equal(check.Must(r), 1, 2) }, true},
		"error":   {func(r *report) { check.NoError(r, io.EOF) }, true},
		"waiting": {func(r *report) { check.Receive(r, make(chan int)) }, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var r report
			c.failed(&r)
			if r.ended != c.ends {
				t.Errorf("%s: ended is %t, want %t", name, r.ended, c.ends)
			}
			if r.text == "" {
				t.Errorf("%s: nothing reported", name)
			}
		})
	}
}

func TestReceive(t *testing.T) {
	values := make(chan int, 1)
	values <- 3
	check.Equal(t, check.Receive(t, values), 3)
}
