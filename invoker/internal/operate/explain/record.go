package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// statuses maps the REST API's names to status codes.
var statuses = map[string]int{"success": 0, "application error": 1, "action developer error": 2, "whisk internal error": 3}

// FromRecord makes a trace from an activation record of the REST API or the database. The
// trace is incomplete: for example, a record does not contain the reason of a wait.
func FromRecord(text []byte) (*Trace, error) {
	var r struct {
		ID         string `json:"activationId"`
		Namespace  string
		Name       string
		Start, End int64
		Response   struct {
			StatusCode *int
			Status     string
		}
		Annotations activation.Annotations
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read activation record: %w", err)
	}
	if r.ID == "" || r.Start <= 0 {
		return nil, errors.New("read activation record: activationId or start is missing")
	}
	start, end := time.UnixMilli(r.Start), time.UnixMilli(max(r.Start, r.End))
	a := &Trace{
		ID: r.ID, Namespace: r.Namespace, Action: r.Name, Status: statuses[r.Response.Status], FromRecord: true, Recorded: true,
		Start: "warmed", RunStart: start, RunEnd: end, Answered: end,
	}
	if r.Response.StatusCode != nil {
		a.Status = *r.Response.StatusCode
	}
	if path, ok := r.Annotations.Text("path"); ok {
		a.Action = path
	}
	a.Kind, _ = r.Annotations.Text("kind")
	timeout, _ := r.Annotations.Get("timeout")
	a.TimedOut = string(timeout) == "true"
	if waited, _ := r.Annotations.Number("waitTime"); waited > 0 {
		a.Sent = start.Add(-millis(waited))
	}
	if init, _ := r.Annotations.Number("initTime"); init > 0 {
		a.Start, a.InitStart, a.InitEnd = "cold", start, start.Add(millis(init))
		a.RunStart = a.InitEnd
	}
	if run, ok := r.Annotations.GPURun(); ok {
		a.GPU = &GPU{Device: run.Device, Memory: run.Memory, Moved: millis(run.PrefetchTime), Alone: true}
		a.Start, a.Queued, a.Granted = run.Start, start.Add(-millis(run.QueueTime)), start
		a.RunStart = end.Add(-millis(run.GPUTime))
	}
	return a, nil
}

func millis(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
