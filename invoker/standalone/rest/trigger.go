package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/catalog"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/controller"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone/entity"
)

// triggers routes .../triggers and .../triggers/NAME.
func (d *Door) triggers(r *request, ns string, path []string) error {
	if err := r.own(ns); err != nil {
		return err
	}
	if len(path) == 0 || len(path) == 1 && path[0] == "" {
		if r.Method != http.MethodGet {
			return notAllowed()
		}
		return d.listEntities(r, catalog.Triggers, ns)
	}
	ref, err := entityRef(r, ns, path)
	if err != nil {
		return err
	}
	switch r.Method {
	case http.MethodPut:
		return d.putTrigger(r, ref)
	case http.MethodPost:
		return d.fireTrigger(r, ref)
	case http.MethodGet, http.MethodDelete:
		return d.getOrDeleteTrigger(r, ref)
	}
	return notAllowed()
}

func (d *Door) getOrDeleteTrigger(r *request, ref entity.Ref) error {
	t, err := d.cfg.Catalog.Trigger(r.Context(), ref)
	if err != nil {
		return err
	}
	if r.Method == http.MethodDelete {
		if err := d.cfg.Catalog.Delete(r.Context(), &t.Head); err != nil {
			return err
		}
	}
	return r.raw(http.StatusOK, t.Encode(entity.ForAnswer))
}

func (d *Door) putTrigger(r *request, ref entity.Ref) error {
	body, overwrite, err := r.put()
	if err != nil {
		return err
	}
	put, err := entity.DecodeTriggerPut(body)
	if err != nil {
		return err
	}
	t, err := d.mergedTrigger(r, ref, put, overwrite)
	if err != nil {
		return err
	}
	if err := d.cfg.Catalog.PutTrigger(r.Context(), t); err != nil {
		return err
	}
	return r.raw(http.StatusOK, t.Encode(entity.ForAnswer))
}

func (d *Door) mergedTrigger(r *request, ref entity.Ref, put *entity.TriggerPut, overwrite bool) (*entity.Trigger, error) {
	old, err := d.cfg.Catalog.Trigger(r.Context(), ref)
	switch {
	case errors.Is(err, couchdb.ErrNotFound):
		return put.Create(ref, millis())
	case err != nil:
		return nil, err
	case !overwrite:
		return nil, conflict(textExists)
	}
	return put.Update(old, millis())
}

func (d *Door) fireTrigger(r *request, ref entity.Ref) error {
	payload, err := r.payload(false)
	if err != nil {
		return err
	}
	t, err := d.cfg.Catalog.Trigger(r.Context(), ref)
	if err != nil {
		return err
	}
	id, fired, err := d.cfg.Controller.Fire(controller.Event{
		User: *r.user, TransID: r.transID, Trigger: t, Payload: payload, Headers: r.headerObject(),
	})
	if err != nil {
		return err
	}
	if !fired {
		return r.empty(http.StatusNoContent)
	}
	r.w.Header().Set(activationHeader, string(id))
	return r.json(http.StatusAccepted, map[string]activation.ID{"activationId": id})
}

// headerObject shows the request's headers to an action, by their names in
// lower case. Those that only concern the transport of the body are left out,
// as the original's HTTP library does.
func (r *request) headerObject() json.RawMessage {
	all := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		switch name {
		case "Content-Length", "Transfer-Encoding":
		default:
			all[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	b, _ := encode(all) // a map of strings always encodes
	return b
}
