package shimctl

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"
)

// TestOrderOutlivesAConnection: a connection that breaks is no answer to an order,
// whether it breaks before the order or after it: the process's memory is where it
// was, and the order goes to its next connection.
func TestOrderOutlivesAConnection(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		ctl, rec := openControl(t, Settings{})
		c := openContainer(t, ctl, when)
		l := dial(t, c)
		l.hello(0)
		l.usage(0, 9, 9)
		rec.awaitUsage(t, os.Getpid(), 9)
		done := make(chan Done, 1)
		order := func() {
			d, err := c.Evict(limited(t), 7)
			if err != nil {
				t.Errorf("%s: %v", when, err)
			}
			done <- d
		}
		if when == "after" {
			go order()
			l.hear(typeEvict)
		}
		_ = l.conn.Close()
		for adrift := false; !adrift; runtime.Gosched() {
			c.mu.Lock()
			adrift = len(c.adrift) == 1
			c.mu.Unlock()
		}
		if when == "before" {
			go order()
			underWay(c)
		}
		again := dial(t, c)
		again.hello(0)
		if f := again.hear(typeEvict); binary.LittleEndian.Uint64(f[8:]) != 7 {
			t.Errorf("%s: the order is %x", when, f)
		}
		again.send(encode(typeDone, 7, pair(uint32(typeEvict), uint32(OK)), 0, 9, 1, 0))
		if d := <-done; d.Processes != 1 || d.Moved != 9 || d.Status != OK {
			t.Errorf("%s: %+v", when, d)
		}
	}
}
