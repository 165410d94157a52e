package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// extended is a record as users get it, by the names of its members, in whose order
// they are written, as the controller does.
type extended map[string]any

func extend(r *activation.Record) extended {
	response := extended{"status": r.Response.Status(), "success": r.Response.StatusCode == activation.StatusSuccess}
	if r.Response.Result != nil {
		response["result"] = r.Response.Result
	}
	if r.Response.Size != nil {
		response["size"] = r.Response.Size
	}
	e := extended{
		"activationId": r.ActivationID, "annotations": r.Annotations, "logs": append([]string{}, r.Logs...), "name": r.Name, "namespace": r.Namespace,
		"publish": r.Publish, "response": response, "start": r.Start, "subject": r.Subject, "version": r.Version,
	}
	if r.Cause != "" {
		e["cause"] = r.Cause
	}
	if r.End != 0 {
		e["end"], e["duration"] = r.End, r.End-r.Start
	}
	if r.Duration != nil {
		e["duration"] = r.Duration
	}
	return e
}

// part returns a handler that answers with a part of the record in the path. show picks
// the part.
func part(show func(extended) any) func(*request) error {
	return func(r *request) error {
		if err := r.own(r.ns); err != nil {
			return err
		}
		id, err := activation.ParseID(r.PathValue("id"))
		if err != nil {
			return entity.Bad("The activation id is not valid.")
		}
		record, err := r.DB.Record(r.Context(), r.ns, id)
		if err != nil {
			return err
		}
		return r.json(http.StatusOK, show(extend(record)))
	}
}

// listActivations answers with summaries of records, or with whole ones.
func (r *request) listActivations() error {
	if err := r.own(r.ns); err != nil {
		return err
	}
	q, show := r.recordQuery(), asItIs
	if q.Docs {
		show = func(doc json.RawMessage) (json.RawMessage, error) {
			record, err := activation.DecodeRecord(doc)
			if err != nil {
				return nil, err
			}
			return entity.Marshal(extend(record))
		}
	}
	return r.list("activations", q, show)
}

func (r *request) recordQuery() couchdb.Query {
	name := strings.Trim(r.query.Get("name"), "/")
	parts := strings.Split(name, "/")
	for _, part := range parts {
		if name != "" && (!activation.ValidName(part) || len(parts) > 2) {
			r.malformed("name", "Parameter may be a 'simple' name or 'package-name/simple' name: %s", name)
		}
	}
	q := r.DB.Activations(r.ns, name)
	q.From, q.To, q.Docs = r.millis("since"), r.millis("upto"), r.flag("docs", false)
	if q.Docs && r.flag("count", false) {
		r.fail(entity.Bad("The parameter 'docs' is not permitted with 'count'."))
	}
	return q
}
