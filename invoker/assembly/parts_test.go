package assembly

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// recorded is a list of parts that tell what is done to them; the one with the name
// of fail cannot be opened, and each says an error when it is closed.
func recorded(log *[]string, fail string) []part {
	step := func(verb, name string, err error) func(context.Context) error {
		return func(context.Context) error {
			*log = append(*log, verb+" "+name)
			return err
		}
	}
	open := func(name string) func(context.Context) error {
		if name == fail {
			return step("open", name, errFail)
		}
		return step("open", name, nil)
	}
	return []part{
		{name: "a", open: open("a"), close: step("close", "a", errClose)},
		{name: "b", open: open("b"), flush: step("flush", "b", nil), close: step("close", "b", nil)},
		{name: "c", close: step("close", "c", nil)},
		{name: "d", open: open("d"), flush: step("flush", "d", nil)},
	}
}

var errFail, errClose = errors.New("cannot open"), errors.New("cannot close")

// TestPartsEndInReverse: everything that is open is flushed before anything is
// closed, the last first; a part that failed to open is closed, too, and those
// after it are left alone.
func TestPartsEndInReverse(t *testing.T) {
	for _, c := range []struct {
		fail string
		want []string
	}{
		{"", []string{"open a", "open b", "open d", "flush d", "flush b", "close c", "close b", "close a"}},
		{"b", []string{"open a", "open b", "flush b", "close b", "close a"}},
	} {
		var log []string
		p := parts{all: recorded(&log, c.fail)}
		if err := p.open(t.Context()); (err != nil) != (c.fail != "") || err != nil && !errors.Is(err, errFail) {
			t.Errorf("open: %v", err)
		}
		if err := p.close(t.Context()); !errors.Is(err, errClose) {
			t.Errorf("close: %v", err)
		}
		if !slices.Equal(log, c.want) {
			t.Errorf("fail %q: %v, want %v", c.fail, log, c.want)
		}
		if err := p.close(t.Context()); err != nil || len(log) != len(c.want) {
			t.Errorf("closed twice: %v, %v", err, log)
		}
	}
}

// TestPartsAreInOrder: the acks that tell an activation's end go out before the
// position that says so, and what another process with this id waits for is let
// go last.
func TestPartsAreInOrder(t *testing.T) {
	var names []string
	for _, p := range withState(stateOff).partsInOrder(nil) {
		names = append(names, p.name)
		if p.close == nil && p.flush == nil && p.name != "Kafka" {
			t.Errorf("%s is never closed", p.name)
		}
	}
	before := func(a, b string) {
		t.Helper()
		i, j := slices.Index(names, a), slices.Index(names, b)
		if i < 0 || j < 0 || i > j {
			t.Errorf("%s must be opened before %s: %v", a, b, names)
		}
	}
	before("state", "GPUs")
	before("state", "engine")
	before("GPUs", "engine")
	before("engine", "activations")
	before("database", "activations")
	before("pings", "activations")
	before("activations", "invoker")
	before("acks", "invoker")
}
