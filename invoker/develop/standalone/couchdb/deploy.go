package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-kivik/kivik/v4"
)

// Deploy creates the missing databases and design documents of an OpenWhisk deployment.
// It does not change existing ones.
func (c *Client) Deploy(ctx context.Context) error {
	n := c.names
	for _, db := range []string{n.Whisks, n.Activations, n.Subjects} {
		if err := c.client.CreateDB(ctx, db); err != nil && kivik.HTTPStatus(err) != http.StatusPreconditionFailed {
			return fmt.Errorf("create database %s: %w", db, err)
		}
	}
	for _, d := range designs(n) {
		if _, err := c.Put(ctx, d.db, "_design/"+d.name, d.doc()); err != nil && !errors.Is(err, ErrConflict) {
			return fmt.Errorf("deploy view %s to %s: %w", d.name, d.db, err)
		}
	}
	return nil
}

// Subject is a user with the namespaces that are its own.
type Subject struct {
	Name       string      `json:"subject"`
	Namespaces []Namespace `json:"namespaces"`
}

// Namespace is a tenant of the installation with its key, as a subject's document
// has it.
type Namespace struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
	Key  string `json:"key"`
}

// AuthKey returns the key in the form of wsk's option --auth.
func (n Namespace) AuthKey() string { return n.UUID + ":" + n.Key }

// Subject reads a subject.
func (c *Client) Subject(ctx context.Context, name string) (s Subject, err error) {
	doc, err := c.Get(ctx, c.names.Subjects, name)
	if err == nil {
		err = json.Unmarshal(doc, &s)
	}
	return s, err
}

// PutSubject creates a subject. If the subject exists, its namespaces are replaced, and
// it stays blocked if it was blocked.
func (c *Client) PutSubject(ctx context.Context, s Subject) error {
	doc := map[string]any{}
	old, err := c.Get(ctx, c.names.Subjects, s.Name)
	if err == nil {
		err = json.Unmarshal(old, &doc)
	}
	if err == nil || errors.Is(err, ErrNotFound) {
		doc["subject"], doc["namespaces"] = s.Name, s.Namespaces
		body, _ := json.Marshal(doc)
		_, err = c.Put(ctx, c.names.Subjects, s.Name, body)
	}
	if err != nil {
		return fmt.Errorf("write subject %s: %w", s.Name, err)
	}
	return nil
}

// design is one design document: views by name, each a map function and a
// built-in reduce.
type design struct {
	db, name string
	views    map[string]viewText
}

type viewText struct {
	Map    string `json:"map"`
	Reduce string `json:"reduce,omitempty"`
}

func (d design) doc() []byte {
	doc, _ := json.Marshal(map[string]any{"language": "javascript", "views": d.views})
	return doc
}

// designs are the views that this program and OpenWhisk's controller read. The
// names and rows are those of an OpenWhisk deployment, so that either can work
// on a database that the other deployed; the functions are written anew.
func designs(n Names) []design {
	const (
		head    = `namespace: d.namespace, name: d.name, version: d.version, publish: d.publish, annotations: d.annotations`
		twice   = `emit([d.namespace, d.updated], v); var root = d.namespace.split("/")[0]; if (root !== d.namespace) emit([root, d.updated], v);`
		summary = `var open = d.end === 0 || d.end === undefined;
var v = {` + head + `, activationId: d.activationId, start: d.start, cause: d.cause};
if (!open) { v.end = d.end; v.duration = d.end - d.start; if (d.response) v.statusCode = d.response.statusCode; }`
		bound = `Object.keys(d.binding).length > 0`
	)
	fn := func(condition, body string) string {
		return "function (d) { if (" + condition + ") try { " + body + " } catch (e) {} }"
	}
	return []design{
		{n.Whisks, "whisks.v2.1.0", map[string]viewText{
			"actions":         {fn(`d.exec !== undefined`, `var v = {`+head+`, limits: d.limits, exec: {binary: d.exec.binary || false}, updated: d.updated}; `+twice), "_count"},
			"packages":        {fn(`d.binding !== undefined`, `emit([d.namespace, d.updated], {`+head+`, updated: d.updated, binding: `+bound+` ? d.binding : false});`), "_count"},
			"packages-public": {fn(`d.binding !== undefined && d.publish && !(`+bound+`)`, `emit([d.namespace, d.updated], {`+head+`, updated: d.updated, binding: false});`), "_count"},
			"triggers":        {fn(`d.exec === undefined && d.binding === undefined && d.parameters !== undefined`, `var v = {`+head+`, updated: d.updated}; `+twice), "_count"},
			"rules":           {fn(`d.trigger !== undefined`, `var v = 1; `+twice), "_count"},
		}},
		{n.Activations, "whisks.v2.1.0", map[string]viewText{
			"activations": {fn(`d.activationId !== undefined`, summary+` emit([d.namespace, d.start], v);`), "_count"},
		}},
		{n.Activations, "whisks-filters.v2.1.1", map[string]viewText{
			"activations": {fn(`d.activationId !== undefined`, summary+`
var a = {}; (d.annotations || []).forEach(function (x) { a[x.key] = x.value; });
var pkg = a.binding ? a.binding.split("/")[1] : a.path && a.path.split("/").length === 3 ? a.path.split("/")[1] : undefined;
emit([d.namespace + "/" + (pkg ? pkg + "/" : "") + d.name, d.start], v);`), "_count"},
		}},
		{n.Activations, "activations", map[string]viewText{
			"byDate": {fn(`d.activationId !== undefined`, `emit(d.start, 1);`), ""},
		}},
		{n.Subjects, "subjects.v2.0.0", map[string]viewText{
			"identities": {fn(`d.subject && d.namespaces && !d.blocked`, `d.namespaces.forEach(function (n) {
var v = {_id: n.name + "/limits", namespace: n.name, uuid: n.uuid, key: n.key}; emit([n.name], v); emit([n.uuid, n.key], v); });`), ""},
		}},
		{n.Subjects, "namespaceThrottlings", map[string]viewText{
			"blockedNamespaces": {fn(`true`, `if (d._id.slice(-7) === "/limits") { if (d.concurrentInvocations === 0 || d.invocationsPerMinute === 0) emit(d._id.slice(0, -7), 1); }
else if (d.subject && d.blocked) d.namespaces.forEach(function (n) { emit(n.name, 1); });`), "_sum"},
		}},
	}
}
