package assembly

import (
	"context"
	"errors"
	"slices"
	"testing"
)

var errFail, errClose = errors.New("cannot open"), errors.New("cannot close")

// recorded is a list of parts that log what is done with them; the one with the
// name of fail cannot be opened whole, and a returns an error when it is closed.
func recorded(log *[]string, fail string) []part {
	step := func(verb, name string, err error) func(context.Context) error {
		return func(context.Context) error {
			*log = append(*log, verb+" "+name)
			return err
		}
	}
	one := func(name string, h hooks) part {
		return part{name, func(ctx context.Context) (hooks, error) {
			_ = step("open", name, nil)(ctx)
			if name == fail {
				return h, errFail
			}
			return h, nil
		}}
	}
	return []part{
		one("a", hooks{close: step("close", "a", errClose)}),
		one("b", hooks{flush: step("flush", "b", nil), close: step("close", "b", nil)}),
		one("c", hooks{close: step("close", "c", nil)}),
		one("d", hooks{flush: step("flush", "d", nil)}),
	}
}

// TestPartsEndInReverse: everything that is open is flushed before anything is
// closed, the last first; a part that failed to open is closed, too, and those
// after it are left alone.
func TestPartsEndInReverse(t *testing.T) {
	for _, c := range []struct {
		fail string
		want []string
	}{
		{"", []string{"open a", "open b", "open c", "open d", "flush d", "flush b", "close c", "close b", "close a"}},
		{"b", []string{"open a", "open b", "flush b", "close b", "close a"}},
	} {
		var log []string
		var o openParts
		if err := o.open(t.Context(), recorded(&log, c.fail)); (err != nil) != (c.fail != "") || err != nil && !errors.Is(err, errFail) {
			t.Errorf("open: %v", err)
		}
		if err := o.close(t.Context()); !errors.Is(err, errClose) {
			t.Errorf("close: %v", err)
		}
		if !slices.Equal(log, c.want) {
			t.Errorf("fail %q: %v, want %v", c.fail, log, c.want)
		}
		if err := o.close(t.Context()); err != nil || len(log) != len(c.want) {
			t.Errorf("closed twice: %v, %v", err, log)
		}
	}
}

// TestPartsAreInOrder: the acks of an activation go out before its offset is
// committed, and what another process with this id waits for is closed last.
func TestPartsAreInOrder(t *testing.T) {
	var names []string
	for _, p := range withState(stateOff).partsInOrder(nil) {
		names = append(names, p.name)
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
