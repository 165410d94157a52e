package rest

import (
	"fmt"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/controller"
)

// Rates that the API tells. A stock installation refuses what exceeds them;
// this door serves one developer and refuses nothing for being too much.
const (
	perMinute  = 1_000_000
	concurrent = 10_000
)

// root tells limits and runtimes, which client tools read before they deploy.
func (d *Door) root(r *request) error {
	b := d.cfg.Bounds
	bytesOf := func(mb int) int64 { return int64(mb) << 20 }
	limits := map[string]int64{
		"actions_per_minute": perMinute, "triggers_per_minute": perMinute, "concurrent_actions": concurrent,
		"sequence_length":     maxSequence,
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
		"runtimes":    d.runtimes(),
		"support": map[string]string{
			"github": "https://github.com/apache/openwhisk/issues",
			"slack":  "http://slack.openwhisk.org",
		},
	})
}

// runtimeJSON is a kind as clients see it.
type runtimeJSON struct {
	Attached    bool   `json:"attached"`
	Default     bool   `json:"default"`
	Deprecated  bool   `json:"deprecated"`
	Image       string `json:"image"`
	Kind        string `json:"kind"`
	RequireMain bool   `json:"requireMain"`
}

func (d *Door) runtimes() map[string][]runtimeJSON {
	families := map[string][]runtimeJSON{}
	for _, r := range d.cfg.Manifest.Runtimes() {
		families[r.Family] = append(families[r.Family], runtimeJSON{
			r.Attached, r.Default, r.Deprecated, r.Image.String(), r.Kind, r.RequireMain,
		})
	}
	return families
}

// apiInfo is what wsk property get shows.
func (d *Door) apiInfo(r *request) error {
	return r.json(http.StatusOK, map[string]any{
		"description":      "OpenWhisk API",
		"api_version":      "1.0.0",
		"api_version_path": "v1",
		"build":            "gpuwhisk",
		"buildno":          d.cfg.Build,
		"swagger_paths":    map[string]string{"ui": "/docs", "api-docs": "/api-docs"},
	})
}

// limits are those that hold for the caller's namespace.
func (d *Door) limits(r *request, ns string) error {
	if r.Method != http.MethodGet {
		return notAllowed()
	}
	if err := r.own(ns); err != nil {
		return err
	}
	b := d.cfg.Bounds.For(activation.UserLimits{}, r.user.Limits)
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

// admin answers what operators ask a controller.
func (d *Door) admin(r *request, path []string) error {
	if r.Method != http.MethodGet {
		return notAllowed()
	}
	all := d.cfg.Controller.Invokers()
	up := 0
	states := map[string]controller.State{}
	for _, s := range all {
		states[s.Name] = s.State
		if s.State == controller.Healthy {
			up++
		}
	}
	switch joined(path) {
	case "invokers":
		return r.json(http.StatusOK, states)
	case "invokers/healthy/count":
		return r.json(http.StatusOK, up)
	case "invokers/ready":
		status := http.StatusOK
		if up == 0 {
			status = http.StatusInternalServerError
		}
		return r.json(status, map[string]string{"healthy": fmt.Sprintf("%d/%d", up, len(all))})
	case "activation/count":
		return r.json(http.StatusOK, d.cfg.Controller.InFlight())
	}
	return notServed(r.URL.Path)
}

func joined(path []string) string {
	s := path[0]
	for _, p := range path[1:] {
		s += "/" + p
	}
	return s
}
