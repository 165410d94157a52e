package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
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

// record reads the record that the path names.
func (h *Handler) record(r *request) (*activation.Record, error) {
	if err := r.own(r.ns); err != nil {
		return nil, err
	}
	id, err := activation.ParseID(r.PathValue("id"))
	if err != nil {
		return nil, bad("The activation id is not valid.")
	}
	return h.cfg.Catalog.Record(r.Context(), r.ns, id)
}

// getRecord answers with what part picks from a record.
func (h *Handler) getRecord(part func(extended) any) func(*request) error {
	return func(r *request) error {
		record, err := h.record(r)
		if err != nil {
			return err
		}
		return r.json(http.StatusOK, part(extend(record)))
	}
}

func wholeRecord(e extended) any { return e }
func resultOf(e extended) any    { return e.Response }
func logsOf(e extended) any      { return map[string][]string{"logs": e.Logs} }

func (h *Handler) listActivations(r *request) error {
	if err := r.own(r.ns); err != nil {
		return err
	}
	q, docs, counting := h.recordQuery(r), r.flag("docs", false), r.flag("count", false)
	switch {
	case r.err != nil:
		return r.err
	case counting && docs:
		return bad("The parameter 'docs' is not permitted with 'count'.")
	case counting:
		return h.count(r, activations, q)
	case !docs:
		summaries, err := h.cfg.Catalog.Rows(r.Context(), q)
		if err != nil {
			return err
		}
		return r.json(http.StatusOK, summaries)
	}
	records, err := h.cfg.Catalog.Records(r.Context(), q)
	if err != nil {
		return err
	}
	all := make([]extended, 0, len(records))
	for _, record := range records {
		all = append(all, extend(record))
	}
	return r.json(http.StatusOK, all)
}

// activations is the name of the collection.
const activations = "activations"

func (h *Handler) recordQuery(r *request) couchdb.Query {
	name := strings.Trim(r.query.Get("name"), "/")
	parts := strings.Split(name, "/")
	for _, part := range parts {
		if name != "" && (!activation.ValidName(part) || len(parts) > 2) {
			r.malformed("name", "Parameter may be a 'simple' name or 'package-name/simple' name: %s", name)
		}
	}
	q := h.cfg.Catalog.Activations(r.ns, name)
	q.From, q.To = r.millis("since"), r.millis("upto")
	q.Skip, q.Limit = r.skip(activations), r.limit(activations)
	return q
}
