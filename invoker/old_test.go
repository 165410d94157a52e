package invoker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// TestWhatGrowsOldIsParked: what waits or runs for half as long as its topic
// keeps messages is parked, before that, and the feed lets go of it, once.
func TestWhatGrowsOldIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		shelf := newShelf()
		w.shelf = shelf
		w.action("cpu", nil)
		w.action("gpu", annotate("true"))
		w.setRun(func(int, []byte) proxy.Exchange { time.Sleep(10 * time.Minute); return answer(200, `{}`) })
		s := w.gpuSettings(1)
		s.Retention = Retention{Time: 5 * time.Minute}
		s.GPU.Tokens, s.Drain = 1, time.Hour
		iv, stop := w.start(s)
		for _, name := range []string{"cpu", "gpu", "gpu", "cpu"} {
			w.invoke(name, nil)
		}
		shelf.will(func(s *fakeShelf) { s.refuse = errors.New("disk full") })
		time.Sleep(150 * time.Second)
		parked := func() (messages, done int) {
			shelf.mu.Lock()
			defer shelf.mu.Unlock()
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(shelf.has), len(w.done)
		}
		if m, d := parked(); m != 0 || d != 0 {
			t.Errorf("%d parked on a full disk, %d let go of", m, d)
		}
		shelf.will(func(s *fakeShelf) { s.refuse = nil })
		young := w.invoke("cpu", nil)
		time.Sleep(15 * time.Second)
		if m, d := parked(); m != 4 || d != 4 {
			t.Errorf("%d parked, %d let go of, want the 4 old ones", m, d)
		}
		shelf.will(func(s *fakeShelf) {
			if s.has[young] != nil {
				t.Error("a young one is parked")
			}
		})
		time.Sleep(40 * time.Minute)
		stop()
		w.judge(0, 5)
		if o := iv.desk.old; o.first != nil || o.last != nil {
			t.Error("the list is not empty at the end")
		}
	})
}

// TestWhatIsFarBehindIsParked: so is what half of the topic's bytes came after.
func TestWhatIsFarBehindIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		shelf := newShelf()
		w.shelf = shelf
		w.action("slow", nil)
		w.action("quick", nil)
		w.setRun(func(_ int, body []byte) proxy.Exchange {
			if strings.Contains(string(body), "slow") {
				time.Sleep(time.Hour)
			}
			return answer(200, `{}`)
		})
		s := w.settings()
		s.Retention, s.Drain = Retention{Bytes: 100 << 10}, 2*time.Hour
		_, stop := w.start(s)
		slow := w.invoke("slow", nil)
		const n = 60 // of some 2 KB each
		for i := range n {
			w.invoke("quick", func(m *activation.Message) { m.Content = json.RawMessage(fmt.Sprintf(`"%01000d"`, i)) })
			time.Sleep(time.Second)
		}
		shelf.mu.Lock()
		if len(shelf.has) != 1 || shelf.has[slow] == nil {
			t.Errorf("%d parked, want the slow one", len(shelf.has))
		}
		shelf.mu.Unlock()
		time.Sleep(time.Hour)
		stop()
		w.judge(0, n+1)
	})
}
