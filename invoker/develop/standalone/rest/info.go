package rest

import (
	"fmt"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
)

// Rates that the API names. A stock installation refuses what exceeds them;
// this API serves one developer and refuses nothing for being too much.
const (
	perMinute  = 1_000_000
	concurrent = 10_000
)

// root answers with limits and runtimes, which client tools read before they deploy.
func (h *Handler) root(r *request) error {
	b := h.cfg.Bounds
	bytesOf := func(mb int) int64 { return int64(mb) << 20 }
	limits := map[string]int64{
		"actions_per_minute": perMinute, "triggers_per_minute": perMinute, "concurrent_actions": concurrent,
		"sequence_length":     controller.MaxSequence,
		"min_action_duration": int64(b.TimeoutMillis.Min), "max_action_duration": int64(b.TimeoutMillis.Max),
		"min_action_memory": bytesOf(b.MemoryMB.Min), "max_action_memory": bytesOf(b.MemoryMB.Max),
		"min_action_logs": bytesOf(b.LogsMB.Min), "max_action_logs": bytesOf(b.LogsMB.Max),
		"default_min_action_duration": int64(b.TimeoutMillis.Min), "default_max_action_duration": int64(b.TimeoutMillis.Max),
		"default_min_action_memory": bytesOf(b.MemoryMB.Min), "default_max_action_memory": bytesOf(b.MemoryMB.Max),
		"default_min_action_logs": bytesOf(b.LogsMB.Min), "default_max_action_logs": bytesOf(b.LogsMB.Max),
	}
	return r.json(http.StatusOK, map[string]any{
		"description": "OpenWhisk",
		"api_paths":   []string{"/api/v1"},
		"limits":      limits,
		"runtimes":    h.runtimes(),
		"support": map[string]string{
			"github": "https://github.com/apache/openwhisk/issues",
			"slack":  "http://slack.openwhisk.org",
		},
	})
}

// runtimeJSON is a kind in the answer to clients.
type runtimeJSON struct {
	Attached    bool   `json:"attached"`
	Default     bool   `json:"default"`
	Deprecated  bool   `json:"deprecated"`
	Image       string `json:"image"`
	Kind        string `json:"kind"`
	RequireMain bool   `json:"requireMain"`
}

func (h *Handler) runtimes() map[string][]runtimeJSON {
	families := map[string][]runtimeJSON{}
	for _, r := range h.cfg.Manifest.Runtimes() {
		families[r.Family] = append(families[r.Family], runtimeJSON{
			r.Attached, r.Default, r.Deprecated, r.Image.String(), r.Kind, r.RequireMain,
		})
	}
	return families
}

// apiInfo answers wsk property get.
func (h *Handler) apiInfo(r *request) error {
	return r.json(http.StatusOK, map[string]any{
		"description":      "OpenWhisk API",
		"api_version":      "1.0.0",
		"api_version_path": "v1",
		"build":            "gpuwhisk",
		"buildno":          h.cfg.Build,
		"swagger_paths":    map[string]string{"ui": "/docs", "api-docs": "/api-docs"},
	})
}

// limits are those that hold for the caller's namespace.
func (h *Handler) limits(r *request) error {
	if err := r.own(r.ns); err != nil {
		return err
	}
	b := h.cfg.Bounds.For(activation.UserLimits{}, r.user.Limits)
	return r.json(http.StatusOK, map[string]any{
		"concurrentInvocations": or(r.user.Limits.ConcurrentInvoked, concurrent),
		"firesPerMinute":        or(r.user.Limits.FiresPerMinute, perMinute),
		"invocationsPerMinute":  or(r.user.Limits.InvocationsPerMinute, perMinute),
		"maxActionConcurrency":  b.Concurrency.Max, "minActionConcurrency": b.Concurrency.Min,
		"maxActionInstances": concurrent,
		"maxActionLogs":      b.LogsMB.Max, "minActionLogs": b.LogsMB.Min,
		"maxActionMemory": b.MemoryMB.Max, "minActionMemory": b.MemoryMB.Min,
		"maxActionTimeout": b.TimeoutMillis.Max, "minActionTimeout": b.TimeoutMillis.Min,
		"maxParameterSize": (1 * activation.MB).Bytes(),
	})
}

func or(set *int, otherwise int) int {
	if set != nil {
		return *set
	}
	return otherwise
}

// ping answers whether an action can run.
func (h *Handler) ping(r *request) error {
	if h.cfg.Controller.Starting() {
		r.w.Header().Set("Retry-After", "1")
		return r.text(http.StatusServiceUnavailable, "not ready: the invoker is starting")
	}
	return r.text(http.StatusOK, "pong")
}

func (h *Handler) invokers(r *request) error {
	return r.json(http.StatusOK, h.cfg.Controller.Invokers())
}

// healthy counts the invokers that are up, and all.
func (h *Handler) healthy() (up, all int) {
	invokers := h.cfg.Controller.Invokers()
	for _, state := range invokers {
		if state == controller.Healthy {
			up++
		}
	}
	return up, len(invokers)
}

func (h *Handler) healthyCount(r *request) error {
	up, _ := h.healthy()
	return r.json(http.StatusOK, up)
}

func (h *Handler) invokersReady(r *request) error {
	up, all := h.healthy()
	status := http.StatusOK
	if up == 0 {
		status = http.StatusInternalServerError
	}
	return r.json(status, map[string]string{"healthy": fmt.Sprintf("%d/%d", up, all)})
}

func (h *Handler) inFlight(r *request) error {
	return r.json(http.StatusOK, h.cfg.Controller.InFlight())
}
