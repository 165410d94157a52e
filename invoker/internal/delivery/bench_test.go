package delivery

import "testing"

// BenchmarkTable measures the table's part of one activation with a caller that waits.
func BenchmarkTable(b *testing.B) {
	t := New(Config{InFlight: 10})
	end := End{Record: recordOf("a", "ok"), Store: true}
	b.ReportAllocs()
	for b.Loop() {
		t.Reserve()
		a := t.Deliver(Arrival{ID: "a", Blocking: true, Journaled: true})
		for _, e := range []Event{
			{Kind: Begun}, {Kind: Begun}, {Kind: Filed, End: end}, {Kind: Persisted, Version: Version(answered)},
			{Kind: Acked}, {Kind: Stored},
		} {
			e.Activation = a
			t.Take(0, e)
		}
	}
}
