package rest

import (
	"fmt"
	"net/http"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/controller"
)

// The rate limits that the API reports. A stock installation enforces them. This API
// serves one developer and does not.
const (
	perMinute  = 1_000_000
	concurrent = 10_000
)

// root answers with limits and runtimes, which client tools read before they deploy.
func (r *request) root() error {
	limits := map[string]int64{
		"actions_per_minute": perMinute, "triggers_per_minute": perMinute, "concurrent_actions": concurrent,
		"sequence_length": controller.MaxSequence,
	}
	for name, of := range map[string]struct {
		activation.Range
		unit int64
	}{"duration": {r.Bounds.TimeoutMillis, 1}, "memory": {r.Bounds.MemoryMB, 1 << 20}, "logs": {r.Bounds.LogsMB, 1 << 20}} {
		for _, prefix := range []string{"", "default_"} {
			limits[prefix+"min_action_"+name], limits[prefix+"max_action_"+name] = int64(of.Min)*of.unit, int64(of.Max)*of.unit
		}
	}
	return r.json(http.StatusOK, map[string]any{
		"description": "OpenWhisk",
		"api_paths":   []string{"/api/v1"},
		"limits":      limits,
		"runtimes":    r.runtimes(),
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

func (r *request) runtimes() map[string][]runtimeJSON {
	families := map[string][]runtimeJSON{}
	for _, r := range r.Manifest.Runtimes() {
		families[r.Family] = append(families[r.Family], runtimeJSON{
			r.Attached, r.Default, r.Deprecated, r.Image.String(), r.Kind, r.RequireMain,
		})
	}
	return families
}

// apiInfo answers wsk property get.
func (r *request) apiInfo() error {
	return r.json(http.StatusOK, map[string]any{
		"description":      "OpenWhisk API",
		"api_version":      "1.0.0",
		"api_version_path": "v1",
		"build":            "gpuwhisk",
		"buildno":          r.Build,
		"swagger_paths":    map[string]string{"ui": "/docs", "api-docs": "/api-docs"},
	})
}

// limits answers with the limits of the caller's namespace.
func (r *request) limits() error {
	if err := r.own(r.ns); err != nil {
		return err
	}
	b := r.bounds()
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

// listNamespaces answers with the caller's own.
func (r *request) listNamespaces() error {
	return r.json(http.StatusOK, []string{r.user.Namespace.Name})
}

func or(set *int, otherwise int) int {
	if set != nil {
		return *set
	}
	return otherwise
}

// ping answers whether an action can run.
func (r *request) ping() error {
	if r.Controller.Starting() {
		r.w.Header().Set("Retry-After", "1")
		return r.text(http.StatusServiceUnavailable, "not ready: the invoker is starting")
	}
	return r.text(http.StatusOK, "pong")
}

func (r *request) invokers() error { return r.json(http.StatusOK, r.Controller.Invokers()) }

func (r *request) invokersReady() error {
	up, all := 0, r.Controller.Invokers()
	for _, state := range all {
		if state == controller.Healthy {
			up++
		}
	}
	status := http.StatusOK
	if up == 0 {
		status = http.StatusInternalServerError
	}
	return r.json(status, map[string]string{"healthy": fmt.Sprintf("%d/%d", up, len(all))})
}
