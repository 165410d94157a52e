package rest

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
)

// extended is a record as users see it. The fields are in the order of their
// names, as the controller writes them.
type extended struct {
	ActivationID activation.ID    `json:"activationId"`
	Annotations  []annotationJSON `json:"annotations"`
	Cause        activation.ID    `json:"cause,omitempty"`
	Duration     *int64           `json:"duration,omitempty"`
	End          int64            `json:"end,omitempty"`
	Logs         []string         `json:"logs"`
	Name         string           `json:"name"`
	Namespace    string           `json:"namespace"`
	Publish      bool             `json:"publish"`
	Response     responseJSON     `json:"response"`
	Start        int64            `json:"start"`
	Subject      string           `json:"subject"`
	Version      string           `json:"version"`
}

type annotationJSON struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

type responseJSON struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Size    *int            `json:"size,omitempty"`
	Status  string          `json:"status"`
	Success bool            `json:"success"`
}

func respond(r activation.Response) responseJSON {
	words := [...]string{"success", "application error", "action developer error", "whisk internal error"}
	return responseJSON{r.Result, r.Size, words[r.StatusCode], r.StatusCode == activation.StatusSuccess}
}

func extend(r *activation.Record) extended {
	e := extended{
		ActivationID: r.ActivationID, Cause: r.Cause, Duration: r.Duration, End: r.End, Logs: r.Logs,
		Name: r.Name, Namespace: r.Namespace, Publish: r.Publish, Response: respond(r.Response),
		Start: r.Start, Subject: r.Subject, Version: r.Version, Annotations: []annotationJSON{},
	}
	for _, a := range r.Annotations {
		e.Annotations = append(e.Annotations, annotationJSON(a))
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

// activations routes .../activations, .../activations/ID and its parts.
func (d *Door) activations(r *request, ns string, path []string) error {
	if r.Method != http.MethodGet {
		return notAllowed()
	}
	if err := r.own(ns); err != nil {
		return err
	}
	if len(path) == 0 || len(path) == 1 && path[0] == "" {
		return d.listActivations(r, ns)
	}
	if len(path) > 2 {
		return notServed(r.URL.Path)
	}
	id, err := activation.ParseID(path[0])
	if err != nil {
		return bad("The activation id is not valid.")
	}
	record, err := d.cfg.Catalog.Record(r.Context(), ns, id)
	if err != nil {
		return err
	}
	if len(path) == 1 {
		return r.json(http.StatusOK, extend(record))
	}
	switch path[1] {
	case "result":
		return r.json(http.StatusOK, respond(record.Response))
	case "logs":
		return r.json(http.StatusOK, map[string][]string{"logs": extend(record).Logs})
	}
	return notServed(r.URL.Path)
}

func (d *Door) listActivations(r *request, ns string) error {
	q, err := r.recordQuery(ns)
	if err != nil {
		return err
	}
	docs, err := r.flag("docs", false)
	if err != nil {
		return err
	}
	counting, err := r.flag("count", false)
	switch {
	case err != nil:
		return err
	case counting && docs:
		return bad("The parameter 'docs' is not permitted with 'count'.")
	case counting:
		return d.countActivations(r, q)
	case !docs:
		items, err := d.cfg.Catalog.Summaries(r.Context(), q)
		if err != nil {
			return err
		}
		return r.list(items)
	}
	records, err := d.cfg.Catalog.Records(r.Context(), q)
	if err != nil {
		return err
	}
	items := make([]extended, 0, len(records))
	for _, record := range records {
		items = append(items, extend(record))
	}
	return r.json(http.StatusOK, items)
}

func (d *Door) countActivations(r *request, q catalog.RecordQuery) error {
	n, err := d.cfg.Catalog.CountRecords(r.Context(), q)
	if err != nil {
		return err
	}
	return r.json(http.StatusOK, map[string]int{"activations": max(n-q.Skip, 0)})
}

func (r *request) recordQuery(ns string) (catalog.RecordQuery, error) {
	p, err := r.page("activations")
	if err != nil {
		return catalog.RecordQuery{}, err
	}
	since, err := r.millis("since")
	if err != nil {
		return catalog.RecordQuery{}, err
	}
	upto, err := r.millis("upto")
	if err != nil {
		return catalog.RecordQuery{}, err
	}
	name := strings.Trim(r.query.Get("name"), "/")
	parts := strings.Split(name, "/")
	for _, part := range parts {
		if name != "" && (!activation.ValidName(part) || len(parts) > 2) {
			return catalog.RecordQuery{}, malformedParam("name", "Parameter may be a 'simple' name or 'package-name/simple' name: "+name)
		}
	}
	return catalog.RecordQuery{Namespace: ns, Name: name, Since: since, Upto: upto, Skip: p.skip, Limit: p.limit}, nil
}
