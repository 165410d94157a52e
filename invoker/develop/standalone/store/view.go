package store

import (
	"encoding/json"
	"slices"
	"strings"
)

// view is one of the views that an OpenWhisk deployment has in its design
// documents. Rows of most views carry a summary of their document, which is
// made when they are read: writing an activation record then costs an index
// key and no copy.
type view struct {
	name    string // design document, slash, view
	emit    func(id string, doc *indexed) []entry
	summary func(doc *indexed) map[string]any // nil: the entry's own value
	counts  bool                              // it is reduced to the number of rows
}

// views are those that are answered.
var views = []view{
	{"whisks.v2.1.0/actions", emitActions, actionSummary, true},
	{"whisks.v2.1.0/packages", emitPackages, packageSummary, true},
	{"whisks.v2.1.0/packages-public", emitPublicPackages, packageSummary, true},
	{"whisks.v2.1.0/triggers", emitTriggers, triggerSummary, true},
	{"whisks.v2.1.0/rules", emitRules, nil, true},
	{"whisks.v2.1.0/activations", emitActivations, activationSummary, true},
	{"whisks-filters.v2.1.1/activations", emitByPath, activationSummary, true},
	{"subjects.v2.0.0/identities", emitIdentities, nil, false},
	{"namespaceThrottlings/blockedNamespaces", emitBlocked, nil, true},
}

func findView(name string) (view, bool) {
	i := slices.IndexFunc(views, func(v view) bool { return v.name == name })
	if i < 0 {
		return view{}, false
	}
	return views[i], true
}

// byUpdated emits the key [namespace, updated], and once more under the first
// segment for what lies in a package.
func byUpdated(doc *indexed) []entry {
	entries := []entry{{key: []any{doc.Namespace, doc.Updated}}}
	if root, _, inPackage := strings.Cut(doc.Namespace, "/"); inPackage {
		entries = append(entries, entry{key: []any{root, doc.Updated}})
	}
	return entries
}

func emitActions(_ string, doc *indexed) []entry {
	if doc.Exec == nil {
		return nil
	}
	return byUpdated(doc)
}

func emitPackages(_ string, doc *indexed) []entry {
	if doc.Binding == nil {
		return nil
	}
	return []entry{{key: []any{doc.Namespace, doc.Updated}}}
}

func emitPublicPackages(id string, doc *indexed) []entry {
	if bound(doc) || string(doc.Publish) != "true" {
		return nil
	}
	return emitPackages(id, doc)
}

func emitTriggers(_ string, doc *indexed) []entry {
	if doc.Exec != nil || doc.Binding != nil || doc.Parameters == nil {
		return nil
	}
	return byUpdated(doc)
}

func emitRules(_ string, doc *indexed) []entry {
	if doc.Trigger == nil {
		return nil
	}
	return byUpdated(doc)
}

func emitActivations(_ string, doc *indexed) []entry {
	if doc.ActivationID == "" {
		return nil
	}
	return []entry{{key: []any{doc.Namespace, doc.Start}}}
}

func emitByPath(_ string, doc *indexed) []entry {
	if doc.ActivationID == "" {
		return nil
	}
	return []entry{{key: []any{doc.Namespace + "/" + pathOf(doc), doc.Start}}}
}

// pathOf is the action's name, behind its package's where it has one: that of
// the binding through which it was called, else that of its path.
func pathOf(doc *indexed) string {
	var annotations []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
	}
	_ = json.Unmarshal(doc.Annotations, &annotations) // none: the bare name
	text := map[string]string{}
	for _, a := range annotations {
		var s string
		if json.Unmarshal(a.Value, &s) == nil {
			text[a.Key] = s
		}
	}
	if _, name, ok := strings.Cut(text["binding"], "/"); ok {
		return name + "/" + doc.Name
	}
	if parts := strings.Split(text["path"], "/"); len(parts) == 3 {
		return parts[1] + "/" + doc.Name
	}
	return doc.Name
}

func emitIdentities(_ string, doc *indexed) []entry {
	if doc.Subject == "" || doc.Blocked {
		return nil
	}
	var entries []entry
	for _, ns := range doc.Namespaces {
		value, _ := json.Marshal(map[string]string{
			"_id": ns.Name + "/limits", "namespace": ns.Name, "uuid": ns.UUID, "key": ns.Key,
		})
		entries = append(entries,
			entry{key: []any{ns.Name}, value: value},
			entry{key: []any{ns.UUID, ns.Key}, value: value})
	}
	return entries
}

// emitBlocked lists the namespaces that may not run anything: those of a
// blocked subject and those whose limits are zero.
func emitBlocked(id string, doc *indexed) []entry {
	if ns, ok := strings.CutSuffix(id, "/limits"); ok && (zero(doc.ConcurrentInvocations) || zero(doc.InvocationsPerMinute)) {
		return []entry{{key: ns}}
	}
	if doc.Subject == "" || !doc.Blocked {
		return nil
	}
	var entries []entry
	for _, ns := range doc.Namespaces {
		entries = append(entries, entry{key: ns.Name})
	}
	return entries
}

func zero(n *json.Number) bool { return n != nil && *n == "0" }

// bound distinguishes a binding from a package, whose binding is an empty object.
func bound(doc *indexed) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(doc.Binding, &fields) == nil && len(fields) > 0
}

// summary holds what all summaries share. Absent fields stay absent.
func summary(doc *indexed) map[string]any {
	m := map[string]any{"namespace": doc.Namespace, "name": doc.Name}
	for name, value := range map[string]json.RawMessage{
		"version": doc.Version, "publish": doc.Publish, "annotations": doc.Annotations, "cause": doc.Cause,
	} {
		if value != nil {
			m[name] = value
		}
	}
	return m
}

func triggerSummary(doc *indexed) map[string]any {
	m := summary(doc)
	m["updated"] = doc.Updated
	return m
}

func actionSummary(doc *indexed) map[string]any {
	m := triggerSummary(doc)
	if doc.Limits != nil {
		m["limits"] = doc.Limits
	}
	var exec struct {
		Binary bool `json:"binary"`
	}
	_ = json.Unmarshal(doc.Exec, &exec)
	m["exec"] = exec
	return m
}

func packageSummary(doc *indexed) map[string]any {
	m := triggerSummary(doc)
	m["binding"] = false
	if bound(doc) {
		m["binding"] = doc.Binding
	}
	return m
}

func activationSummary(doc *indexed) map[string]any {
	m := summary(doc)
	m["activationId"] = doc.ActivationID
	m["start"] = doc.Start
	start, _ := doc.Start.Int64()
	end, err := doc.End.Int64()
	if err != nil || end == 0 { // an end of 0 is none, as in the record of a trigger
		return m
	}
	m["end"], m["duration"] = end, end-start
	if doc.Response != nil && doc.Response.StatusCode != nil {
		m["statusCode"] = doc.Response.StatusCode
	}
	return m
}
