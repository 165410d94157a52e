package assembly

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

var errFail, errClose = errors.New("cannot open"), errors.New("cannot close")

// recorded returns parts that log their calls. The part named fail cannot be opened
// completely, and part a returns an error when it is closed.
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
		fail  string
		opens error
		want  []string
	}{
		{"", nil, []string{"open a", "open b", "open c", "open d", "flush d", "flush b", "close c", "close b", "close a"}},
		{"b", errFail, []string{"open a", "open b", "flush b", "close b", "close a"}},
	} {
		var log []string
		var o openParts
		check.ErrorIs(t, o.open(t.Context(), recorded(&log, c.fail)), c.opens)
		check.ErrorIs(t, o.close(t.Context()), errClose)
		check.EqualSlices(t, log, c.want, "fail %q", c.fail)
		check.NoError(t, o.close(t.Context()), "the second time")
		check.Equal(t, len(log), len(c.want), "closed twice: %v", log)
	}
}

// TestPartsAreInOrder: the acks of an activation are sent before its offset is committed, and
// the part that another process with this id waits for is closed last.
func TestPartsAreInOrder(t *testing.T) {
	var names []string
	for _, p := range withState(stateOff).partsInOrder(nil) {
		names = append(names, p.name)
	}
	before := func(a, b string) {
		t.Helper()
		i, j := slices.Index(names, a), slices.Index(names, b)
		check.AtLeast(t, i, 0, "%s in %v", a, names)
		check.AtLeast(t, j, i, "%s must be opened before %s: %v", a, b, names)
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
