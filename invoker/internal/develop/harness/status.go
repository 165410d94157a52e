package harness

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// Status holds the parts of an invoker's /status that tests read.
type Status struct {
	Healthy   bool
	Reasons   []string
	Fallbacks []struct{ Action string }
	Kafka     struct {
		Feed struct {
			Position, Committed, HighWatermark int64
			Undecodable                        uint64
			Open                               int
		}
		Forward []struct {
			Invoker int
			Refuses string
		}
		Sends struct{ Waiting int64 }
	}
	CouchDB struct {
		Writes struct{ LastError string }
	}
	State struct {
		Journal struct{ Messages, Unacknowledged int }
	}
	Work *struct {
		InFlight   int
		Backlog    struct{ Activations int }
		Containers []Container
		Devices    []Device
		Pool       struct {
			Waiting, Active, Removing int
			ReservedMB, UsedMB        int
		}
	}
}

// Container is a container of an action.
type Container struct {
	Name, State, Device string
	MemoryMB            int
}

// Device is a GPU.
type Device struct {
	MemoryBytes, UsedBytes int64
	Lost                   string
}

// Status returns the page /status. It fails the test if the page has no work to show.
func (a Admin) Status(t testing.TB) (s Status) {
	t.Helper()
	a.Get(t, "/status", &s)
	check.That(check.Must(t), s.Work != nil, "the status has no work")
	return s
}

// Await requests /status until want accepts it. It fails the test with the last page
// if that takes longer than peertest.WaitLimit.
func (a Admin) Await(t testing.TB, what string, want func(Status) bool) {
	t.Helper()
	a.AwaitWithin(t, peertest.WaitLimit, what, want)
}

// AwaitWithin is Await with another limit.
func (a Admin) AwaitWithin(t testing.TB, limit time.Duration, what string, want func(Status) bool) {
	t.Helper()
	peertest.UntilWithin(t, limit, what, func() string {
		s := a.Status(t)
		if want(s) {
			return ""
		}
		text, err := json.Marshal(s)
		check.NoError(t, err)
		return string(text)
	})
}
