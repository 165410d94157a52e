package store

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
)

// stub is what a document says of an attachment; the content lies apart, so
// that reading a document does not read it.
type stub struct {
	ContentType string `json:"content_type"`
	RevPos      int    `json:"revpos"`
	Digest      string `json:"digest"`
	Length      int    `json:"length"`
	Stub        bool   `json:"stub"`
}

func newStub(contentType string, data []byte, revPos int) stub {
	sum := md5.Sum(data)
	return stub{
		ContentType: contentType, RevPos: revPos, Length: len(data), Stub: true,
		Digest: "md5-" + base64.StdEncoding.EncodeToString(sum[:]),
	}
}

// blobKey separates id and name by a zero byte, which neither may contain
// (see validID), so that no two attachments share a key.
func blobKey(id, name string) []byte { return []byte(id + "\x00" + name) }

// storeAtts gives next the attachments of an incoming document: stubs keep the
// stored content, data replaces it, and what is not named is dropped.
func (db *database) storeAtts(next, old *record, in *incoming) (*apiError, error) {
	if len(in.atts) == 0 {
		return nil, nil
	}
	prev := ""
	kept := map[string]stub{}
	if old != nil {
		prev, kept = old.rev, old.atts
	}
	next.atts = make(map[string]stub, len(in.atts))
	for name, att := range in.atts {
		if att.Stub {
			s, ok := kept[name]
			if !ok {
				return &apiError{412, "missing_stub", "Invalid attachment stub in " + in.id + " for " + name}, nil
			}
			next.atts[name] = s
			continue
		}
		next.atts[name] = newStub(att.ContentType, att.Data, generation(prev)+1)
		if err := db.blobs.Put(blobKey(in.id, name), att.Data); err != nil {
			return nil, fmt.Errorf("store attachment %s of %s: %w", name, in.id, err)
		}
	}
	return nil, nil
}

// dropBlobs removes the contents that the next revision no longer names.
func (db *database) dropBlobs(id string, old, next map[string]stub) error {
	for name := range old {
		if _, kept := next[name]; kept {
			continue
		}
		if err := db.blobs.Delete(blobKey(id, name)); err != nil {
			return fmt.Errorf("remove attachment %s of %s: %w", name, id, err)
		}
	}
	return nil
}

// putAtt stores one attachment as a new revision of its document, which is
// created when there is none. remove takes it away instead.
func putAtt(db *database, id, rev, name, contentType string, data []byte, remove bool) (string, *apiError, error) {
	old, err := db.record(id)
	if err != nil {
		return "", nil, err
	}
	if refusal := checkRev(old, &incoming{id: id, rev: rev}); refusal != nil {
		return "", refusal, nil
	}
	next := &record{body: []byte("{}"), atts: map[string]stub{}}
	prev := ""
	if old != nil {
		prev = old.rev
		if !old.deleted() {
			next.body = append([]byte(nil), old.body...)
		}
		for n, s := range old.atts {
			next.atts[n] = s
		}
	}
	if remove {
		if _, ok := next.atts[name]; !ok {
			return "", &apiError{404, "not_found", "Document is missing attachment"}, nil
		}
		delete(next.atts, name)
	} else {
		next.atts[name] = newStub(contentType, data, generation(prev)+1)
		if err := db.blobs.Put(blobKey(id, name), data); err != nil {
			return "", nil, fmt.Errorf("store attachment %s of %s: %w", name, id, err)
		}
	}
	next.rev = nextRev(prev, next)
	return next.rev, nil, db.replace(id, old, next)
}

// inlineAtts renders attachments for a document: stubs, or with their content.
func (db *database) inlineAtts(id string, r *record, withData bool) (json.RawMessage, error) {
	if len(r.atts) == 0 {
		return nil, nil
	}
	if !withData {
		return json.Marshal(r.atts)
	}
	type full struct {
		ContentType string `json:"content_type"`
		RevPos      int    `json:"revpos"`
		Digest      string `json:"digest"`
		Data        []byte `json:"data"`
	}
	all := make(map[string]full, len(r.atts))
	for name, s := range r.atts {
		all[name] = full{s.ContentType, s.RevPos, s.Digest, db.blobs.Get(blobKey(id, name))}
	}
	return json.Marshal(all)
}
