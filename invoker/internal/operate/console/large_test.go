package console

import (
	"fmt"
	"math"
	"time"
)

// A snapshot with the fields of the invoker's. The package does not import those types.
type (
	snapshot struct {
		At        int64              `json:"at"`
		Version   string             `json:"version"`
		Status    status             `json:"status"`
		Functions []*function        `json:"functions"`
		Recent    []recent           `json:"recent"`
		Counters  map[string]float64 `json:"counters"`
	}
	status struct {
		Instance string   `json:"instance"`
		Healthy  bool     `json:"healthy"`
		Reasons  []string `json:"reasons"`
		Uptime   string   `json:"uptime"`
		Kafka    struct {
			Lag  int       `json:"lag"`
			Last time.Time `json:"last,omitzero"`
		} `json:"kafka"`
		Work *work `json:"work,omitempty"`
	}
	work struct {
		InFlight   int          `json:"inFlight"`
		Capacity   int          `json:"capacity"`
		Policy     string       `json:"policy,omitempty"`
		Flows      []*flow      `json:"flows,omitempty"`
		Devices    []device     `json:"devices,omitempty"`
		Containers []*container `json:"containers"`
	}
	flow struct {
		Flow      string  `json:"flow"`
		State     string  `json:"state"`
		Queued    int     `json:"queued"`
		InFlight  int     `json:"inFlight"`
		Weight    float64 `json:"weight"`
		LeadMs    int64   `json:"leadMs"`
		OverrunMs int64   `json:"overrunMs,omitempty"`
		VirtualMs int64   `json:"virtualMs"`
		Why       string  `json:"why"`
	}
	device struct {
		Device      string   `json:"device"`
		Simulated   bool     `json:"simulated"`
		Tokens      int      `json:"tokens"`
		InFlight    int      `json:"inFlight"`
		Utilization *float64 `json:"utilization,omitempty"`
		Memory      int64    `json:"memoryBytes"`
		Used        int64    `json:"usedBytes"`
		Foreign     int64    `json:"foreignBytes"`
	}
	container struct {
		Name     string `json:"name"`
		Kind     string `json:"kind"`
		State    string `json:"state"`
		MemoryMB int    `json:"memoryMB"`
		Active   int    `json:"active"`
		Device   string `json:"device,omitempty"`
		Flow     string `json:"flow,omitempty"`
		Resident int64  `json:"residentBytes,omitempty"`
		Context  int64  `json:"contextBytes,omitempty"`
	}
	quantiles struct {
		P50 float64 `json:"p50"`
		P95 float64 `json:"p95"`
	}
	function struct {
		Function string         `json:"function"`
		Count    int            `json:"count"`
		Failed   int            `json:"failed"`
		Starts   map[string]int `json:"starts"`
		Wait     quantiles      `json:"waitMs"`
		Latency  quantiles      `json:"latencyMs"`
	}
	recent struct {
		ID       string  `json:"id"`
		At       int64   `json:"at"`
		Function string  `json:"function"`
		Start    string  `json:"start"`
		Wait     float64 `json:"waitMs"`
		Run      float64 `json:"runMs"`
		Latency  float64 `json:"latencyMs"`
		Status   int     `json:"status"`
	}
)

// Large returns the snapshot of a busy invoker at a second. All flows and devices change
// every second, and a tenth of the flows has one more call.
func Large(flows, devices, second int) *snapshot {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(second) * time.Second)
	s := &snapshot{
		At: now.UnixMilli(), Version: "test",
		Counters: map[string]float64{"activations_completed success": float64(100 * second), "gpu_starts gpu-warm": 5, "gpu_starts cold": 1},
	}
	w := &work{InFlight: 40, Capacity: 512, Policy: "mqfq-sticky"}
	s.Status.Instance, s.Status.Healthy, s.Status.Reasons, s.Status.Uptime = "invoker0/test", true, []string{}, fmt.Sprint(second, "s")
	s.Status.Kafka.Lag, s.Status.Kafka.Last, s.Status.Work = 3, now, w
	for i := range flows {
		name := fmt.Sprintf("tenant%d/tenant%d/package/function-%d", i%40, i%40, i)
		lead := 5000 + 5000*math.Sin(float64(i)+float64(second)/9)
		state := "active"
		if lead > 9500 {
			state = "throttled"
		}
		runs := (second + i) / 10 // one more every ten seconds
		w.Flows = append(w.Flows, &flow{
			Flow: name, State: state, Queued: (runs + i) % 7, InFlight: runs % 2, Weight: 1, LeadMs: int64(lead), OverrunMs: 10000,
			VirtualMs: int64(100000 + 1000*runs), Why: fmt.Sprintf("no token; last chosen by order at %ds", 10*runs),
		})
		s.Functions = append(s.Functions, &function{
			Function: name, Count: runs, Failed: i % 3, Starts: map[string]int{"gpu-warm": runs, "host-warm": 3, "cold": 2},
			Wait: quantiles{12.5 + float64(runs), 900}, Latency: quantiles{212.5 + float64(runs), 1900},
		})
		if i < 32*devices {
			w.Containers = append(w.Containers, &container{
				Name: fmt.Sprintf("wsk00_%d_function", i+second/3), Kind: "python:3-gpu", State: "ready", MemoryMB: 512, Active: i % 2,
				Device: fmt.Sprintf("%d (NVIDIA A100)", i%devices), Flow: name, Resident: 1 << 30, Context: 400 << 20,
			})
		}
	}
	for i := range devices {
		use := 0.5 + 0.4*math.Sin(float64(i)+float64(second))
		w.Devices = append(w.Devices, device{
			Device: fmt.Sprintf("%d (NVIDIA A100)", i), Tokens: 4, InFlight: (i + second) % 5, Utilization: &use,
			Memory: 80 << 30, Used: 46 << 30, Foreign: 2 << 30,
		})
	}
	for i := range 50 {
		s.Recent = append(s.Recent, recent{
			ID: fmt.Sprintf("%032x", second*30-i), At: now.UnixMilli() - int64(i), Function: fmt.Sprintf("tenant%d/f%d", i, i), Start: "gpu-warm",
			Wait: 12.5, Run: 200, Latency: 213,
		})
	}
	return s
}
