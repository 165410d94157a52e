package store

import (
	"encoding/json"
	"strings"
)

// members are those of a JSON object, as they stand.
type members map[string]json.RawMessage

func (m members) has(name string) bool { _, ok := m[name]; return ok }

// text is the value of a member that is text, empty for another one.
func (m members) text(name string) string { return textOf(m[name]) }

func textOf(v json.RawMessage) (text string) {
	_ = json.Unmarshal(v, &text) // another type counts as an empty text
	return text
}

// summary has the members that are in every summary, and more. Absent ones stay absent.
func (m members) summary(more ...string) members {
	some := members{}
	for _, name := range append([]string{"namespace", "name", "version", "publish", "annotations"}, more...) {
		if v, ok := m[name]; ok {
			some[name] = v
		}
	}
	return some
}

// view is one of the views that an OpenWhisk deployment has in its design
// documents. Rows of most views carry a summary of their document, which is
// made when they are read: writing an activation record then costs an index
// key and no copy.
type view struct {
	name    string // design document, slash, view
	in      func(members) bool
	emit    func(members) []entry
	summary func(members) members // nil: the entry's own value
	counts  bool                  // it is reduced to the number of rows
}

// views lists the implemented views.
var views = []view{
	{"whisks.v2.1.0/actions", has("exec"), members.byUpdated, actionSummary, true},
	{"whisks.v2.1.0/packages", has("binding"), under("updated"), packageSummary, true},
	{"whisks.v2.1.0/packages-public", members.isPublic, under("updated"), packageSummary, true},
	{"whisks.v2.1.0/activations", has("activationId"), under("start"), activationSummary, true},
	{"whisks-filters.v2.1.1/activations", has("activationId"), members.byPath, activationSummary, true},
	{"subjects.v2.0.0/identities", has("subject"), members.identities, nil, false},
	{"namespaceThrottlings/blockedNamespaces", has("_id"), members.blockedNamespaces, nil, true},
}

func has(name string) func(members) bool { return func(m members) bool { return m.has(name) } }

// under is the key [namespace, a time].
func under(time string) func(members) []entry {
	return func(m members) []entry { return []entry{{key: []any{m.text("namespace"), m[time]}}} }
}

func (m members) isPublic() bool {
	return m.has("binding") && !m.isBinding() && string(m["publish"]) == "true"
}

// isBinding distinguishes a binding from a package, whose binding is an empty object.
func (m members) isBinding() bool {
	var to members
	return json.Unmarshal(m["binding"], &to) == nil && len(to) > 0
}

// byUpdated returns an entry with the key [namespace, updated]. For an entity in a
// package it returns a second entry with the first segment of the namespace.
func (m members) byUpdated() []entry {
	entries := under("updated")(m)
	if root, _, inPackage := strings.Cut(m.text("namespace"), "/"); inPackage {
		entries = append(entries, entry{key: []any{root, m["updated"]}})
	}
	return entries
}

// byPath is the key [namespace and the action's name, start]. The name stands behind
// its package's where it has one: that of the binding through which it was called,
// else that of its path.
func (m members) byPath() []entry {
	var annotations []struct {
		Key   string
		Value json.RawMessage
	}
	_ = json.Unmarshal(m["annotations"], &annotations) // none: the bare name
	text := map[string]string{}
	for _, a := range annotations {
		text[a.Key] = textOf(a.Value)
	}
	name := m.text("name")
	if _, pkg, ok := strings.Cut(text["binding"], "/"); ok {
		name = pkg + "/" + name
	} else if parts := strings.Split(text["path"], "/"); len(parts) == 3 {
		name = parts[1] + "/" + name
	}
	return []entry{{key: []any{m.text("namespace") + "/" + name, m["start"]}}}
}

// namespaces are those of a subject, with their keys.
func (m members) namespaces() (all []members) {
	_ = json.Unmarshal(m["namespaces"], &all) // another type counts as an empty list
	return all
}

func (m members) isBlocked() bool { return string(m["blocked"]) == "true" }

// identities are the namespaces of a subject by their names and by their keys.
func (m members) identities() (entries []entry) {
	if m.isBlocked() {
		return nil
	}
	for _, ns := range m.namespaces() {
		name, uuid, key := ns.text("name"), ns.text("uuid"), ns.text("key")
		value, _ := json.Marshal(map[string]string{"_id": name + "/limits", "namespace": name, "uuid": uuid, "key": key})
		entries = append(entries, entry{[]any{name}, value}, entry{[]any{uuid, key}, value})
	}
	return entries
}

// blockedNamespaces returns the namespaces that may not run actions: all namespaces of a
// blocked subject, and namespaces whose limits are zero.
func (m members) blockedNamespaces() (entries []entry) {
	if ns, ok := strings.CutSuffix(m.text("_id"), "/limits"); ok && (string(m["concurrentInvocations"]) == "0" || string(m["invocationsPerMinute"]) == "0") {
		return []entry{{key: ns}}
	}
	if m.has("subject") && m.isBlocked() {
		for _, ns := range m.namespaces() {
			entries = append(entries, entry{key: ns.text("name")})
		}
	}
	return entries
}

func actionSummary(doc members) members {
	m := doc.summary("updated", "limits")
	var exec struct {
		Binary bool `json:"binary"`
	}
	_ = json.Unmarshal(doc["exec"], &exec)
	m["exec"], _ = json.Marshal(exec)
	return m
}

func packageSummary(doc members) members {
	m := doc.summary("updated")
	m["binding"] = json.RawMessage("false")
	if doc.isBinding() {
		m["binding"] = doc["binding"]
	}
	return m
}

func activationSummary(doc members) members {
	m := doc.summary("activationId", "start", "cause")
	var start, end int64
	_ = json.Unmarshal(doc["start"], &start)
	if json.Unmarshal(doc["end"], &end) != nil || end == 0 { // an end of 0 is none, as in OpenWhisk's records of triggers
		return m
	}
	m["end"] = doc["end"]
	m["duration"], _ = json.Marshal(end - start)
	var response members
	if json.Unmarshal(doc["response"], &response) == nil && response.has("statusCode") {
		m["statusCode"] = response["statusCode"]
	}
	return m
}
