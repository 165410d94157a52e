package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// record is what of an activation record a trace can be made from.
type record struct {
	ID         string `json:"activationId"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Start, End int64
	Response   struct {
		StatusCode *int   `json:"statusCode"`
		Status     string `json:"status"`
	}
	Annotations []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
}

// statuses are the REST API's names of status codes.
var statuses = map[string]int{"success": 0, "application error": 1, "action developer error": 2, "whisk internal error": 3}

// FromRecord makes a trace from an activation record as the REST API and the
// database have it, as far as that goes: what held a function that waited is in
// no record.
func FromRecord(text []byte) (*Trace, error) {
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read activation record: %w", err)
	}
	if r.ID == "" || r.Start <= 0 {
		return nil, errors.New("read activation record: it has no activationId or no start")
	}
	a := &Trace{ID: r.ID, Namespace: r.Namespace, Action: r.Name, FromRecord: true, Recorded: true}
	if a.Status = statuses[r.Response.Status]; r.Response.StatusCode != nil {
		a.Status = *r.Response.StatusCode
	}
	var waited, initTime int64
	var run struct {
		Device, Start                    string
		QueueTime, PrefetchTime, GPUTime int64
		Memory                           int64
	}
	for _, n := range r.Annotations {
		switch n.Key {
		case "path":
			_ = json.Unmarshal(n.Value, &a.Action) // what is of another type is left out
		case "kind":
			_ = json.Unmarshal(n.Value, &a.Kind)
		case "waitTime":
			_ = json.Unmarshal(n.Value, &waited)
		case "initTime":
			_ = json.Unmarshal(n.Value, &initTime)
		case "timeout":
			_ = json.Unmarshal(n.Value, &a.TimedOut)
		case "gpu":
			if json.Unmarshal(n.Value, &run) == nil {
				a.GPU = &GPU{Device: run.Device, Memory: run.Memory, Moved: millis(run.PrefetchTime), Alone: true}
			}
		}
	}
	start, end := time.UnixMilli(r.Start), time.UnixMilli(max(r.Start, r.End))
	if waited > 0 {
		a.Sent = start.Add(-millis(waited))
	}
	a.Answered, a.RunStart, a.RunEnd = end, start, end
	if initTime > 0 {
		a.InitStart, a.InitEnd, a.Start = start, start.Add(millis(initTime)), "cold"
		a.RunStart = a.InitEnd
	} else {
		a.Start = "warmed"
	}
	if a.GPU != nil {
		a.Start, a.Queued, a.Granted = run.Start, start.Add(-millis(run.QueueTime)), start
		a.RunStart = end.Add(-millis(run.GPUTime))
	}
	return a, nil
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
