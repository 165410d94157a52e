package harness

import (
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Status is what tests read of an invoker's page /status.
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
		Forward struct{ Partitions []int32 }
		Sends   struct{ Waiting int64 }
	}
	CouchDB struct {
		Writes struct{ LastError string }
	}
	State struct {
		Journal struct{ Spilled, Unacknowledged int }
	}
	Work *struct {
		InFlight   int
		Backlog    struct{ InMemory, Spilled int }
		Containers []struct {
			Name, State, Device string
			MemoryMB            int
		}
		Devices []struct {
			MemoryBytes, UsedBytes int64
			Lost                   string
		}
		Pool struct {
			Waiting, Active, Removing int
			ReservedMB, UsedMB        int
		}
	}
}

// Status is the page, which fails the test where the invoker has no work to show.
func (a Admin) Status(t testing.TB) (s Status) {
	t.Helper()
	a.Get(t, "/status", &s)
	check.That(check.Must(t), s.Work != nil, "the status has no work")
	return s
}
