package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// extended is a record as users get it. The fields are in the order of their
// names, as the controller writes them.
type extended struct {
	ActivationID activation.ID          `json:"activationId"`
	Annotations  activation.Annotations `json:"annotations"`
	Cause        activation.ID          `json:"cause,omitempty"`
	Duration     *int64                 `json:"duration,omitempty"`
	End          int64                  `json:"end,omitempty"`
	Logs         []string               `json:"logs"`
	Name         string                 `json:"name"`
	Namespace    string                 `json:"namespace"`
	Publish      bool                   `json:"publish"`
	Response     responseJSON           `json:"response"`
	Start        int64                  `json:"start"`
	Subject      string                 `json:"subject"`
	Version      string                 `json:"version"`
}

type responseJSON struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Size    *int            `json:"size,omitempty"`
	Status  string          `json:"status"`
	Success bool            `json:"success"`
}

func extend(r *activation.Record) extended {
	e := extended{
		ActivationID: r.ActivationID, Annotations: r.Annotations, Cause: r.Cause, Duration: r.Duration, End: r.End, Logs: r.Logs,
		Name: r.Name, Namespace: r.Namespace, Publish: r.Publish, Start: r.Start, Subject: r.Subject, Version: r.Version,
		Response: responseJSON{r.Response.Result, r.Response.Size, r.Response.Status(), r.Response.StatusCode == activation.StatusSuccess},
	}
	if e.Logs == nil {
		e.Logs = []string{}
	}
	if e.Duration == nil && r.End != 0 {
		lasted := r.End - r.Start
		e.Duration = &lasted
	}
	return e
}

// part answers with what show picks from the record that the path names.
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
