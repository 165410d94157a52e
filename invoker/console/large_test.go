package console

import (
	"fmt"
	"math"
	"time"
)

// large is a snapshot as a busy invoker has it: many flows on many devices, all
// of them moving.
func large(flows, devices int) any {
	now := time.Now()
	type list = []map[string]any
	var fs, ds, cs, sums, recent list
	for i := range flows {
		name := fmt.Sprintf("tenant%d/tenant%d/package/function-%d", i%40, i%40, i)
		lead := 5000 + 5000*math.Sin(float64(i)+float64(now.UnixMilli())/9000)
		state := "active"
		if lead > 9500 {
			state = "throttled"
		}
		fs = append(fs, map[string]any{
			"flow": name, "state": state, "queued": i % 7, "inFlight": i % 2, "weight": 1, "leadMs": int(lead), "overrunMs": 10000,
			"virtualMs": 100000 + int(lead), "why": name + " " + state + ": no token, device 0: 2 of 2 in flight, gpu-warm, fits true; last chosen by order at 2m9s",
		})
		sums = append(sums, map[string]any{
			"function": name, "count": 10 + i%90, "failed": i % 3, "starts": map[string]int{"gpu-warm": 5, "host-warm": 3, "cold": 2},
			"waitMs":    map[string]float64{"p50": 12.5, "p95": 900, "p99": 1200},
			"latencyMs": map[string]float64{"p50": 212.5, "p95": 1900, "p99": 2200},
		})
		if i < 32*devices {
			cs = append(cs, map[string]any{
				"name": fmt.Sprintf("wsk00_%d_function", i), "kind": "python:3-gpu", "state": "ready", "memoryMB": 512, "active": i % 2,
				"device": fmt.Sprintf("%d (NVIDIA A100)", i%devices), "flow": name, "residentBytes": 1 << 30, "contextBytes": 400 << 20,
			})
		}
	}
	for i := range devices {
		ds = append(ds, map[string]any{
			"device": fmt.Sprintf("%d (NVIDIA A100)", i), "simulated": false, "tokens": 4, "inFlight": i % 5, "containers": 32,
			"utilization": 0.5 + 0.4*math.Sin(float64(i)+float64(now.Unix())), "memoryBytes": int64(80) << 30, "usedBytes": int64(46) << 30,
			"residentBytes": int64(32) << 30, "contextBytes": int64(12) << 30, "foreignBytes": int64(2) << 30,
		})
	}
	for i := range 50 {
		recent = append(recent, map[string]any{
			"id": fmt.Sprintf("%032x", now.Unix()*100+int64(i)), "at": now.UnixMilli(), "function": fmt.Sprintf("tenant%d/f%d", i, i), "start": "gpu-warm",
			"waitMs": 12.5, "runMs": 200, "latencyMs": 213, "status": 0,
		})
	}
	return map[string]any{
		"at": now.UnixMilli(), "version": "test", "functions": sums, "recent": recent, "explained": 10000,
		"counters": map[string]float64{"activations_completed success": float64(now.UnixMilli() % 1e6), "gpu_starts gpu-warm": 5, "gpu_starts cold": 1},
		"status": map[string]any{
			"instance": "invoker0/test", "healthy": true, "reasons": []string{}, "uptime": "1h0m0s",
			"kafka":   map[string]any{"lag": 3, "feed": map[string]any{"lost": 0}, "sends": map[string]any{"waiting": 1}},
			"couchdb": map[string]any{"bufferedDocs": 4},
			"work":    map[string]any{"inFlight": 40, "capacity": 512, "policy": "mqfq-sticky", "flows": fs, "devices": ds, "containers": cs},
		},
	}
}
