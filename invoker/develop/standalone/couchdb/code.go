package couchdb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/entity"
)

// maxInline is the size from which code is an attachment of its own and no
// longer part of the attachment's name (whisk.db.max-inline-size).
const maxInline = 16 << 10

// Media types of code, as OpenWhisk's controller sets them.
const (
	textCode   = "text/plain; charset=UTF-8"
	binaryCode = "application/octet-stream"
)

// The schemes of attachments' names: the code is in the name itself, or it is attached
// to the document.
const (
	inline = "mem:"
	beside = "couch:"
)

// attachmentJSON names code that is stored apart.
type attachmentJSON struct {
	Name   string `json:"attachmentName"`
	Type   string `json:"attachmentType"`
	Digest string `json:"digest,omitempty"`
	Length int    `json:"length,omitempty"`
}

// attached gives an entity as its document has it. New code of an action whose kind
// attaches code goes into the attachment's name if it is short, else beside the document.
func attached(e *entity.Entity) (stored entity.Entity, att attachmentJSON, content []byte, err error) {
	stored = *e
	if e.Exec == nil || e.Exec.Code == nil || !e.Exec.Attaches {
		return stored, att, nil, nil
	}
	content, att.Type = []byte(*e.Exec.Code), textCode
	if e.Exec.Binary {
		att.Type = binaryCode
		content, err = base64.StdEncoding.DecodeString(strings.TrimFunc(*e.Exec.Code, func(r rune) bool { return r <= ' ' }))
		if err != nil {
			return stored, att, nil, fmt.Errorf("decode binary code of %s: %w", e.ID, err)
		}
	}
	if len(content) < maxInline {
		att.Name = inline + base64.URLEncoding.EncodeToString(content)
		att.Digest, att.Length = fmt.Sprintf("sha256-%x", sha256.Sum256(content)), len(content)
	} else {
		att.Name = beside + strings.ToLower(rand.Text())
	}
	exec := *e.Exec
	exec.Code = nil
	exec.Attachment, _ = json.Marshal(att) // of plain fields
	stored.Exec, stored.Attachments = &exec, nil
	return stored, att, content, nil
}

// LoadCode reads the code of an action, for an answer with it.
func (c *Client) LoadCode(ctx context.Context, a *entity.Entity) error {
	if a.Exec.Attachment == nil {
		return nil
	}
	var att attachmentJSON
	if err := json.Unmarshal(a.Exec.Attachment, &att); err != nil {
		return fmt.Errorf("decode attachment of %s: %w", a.ID, err)
	}
	content, err := c.content(ctx, a.ID, att)
	if err != nil {
		return fmt.Errorf("read code of %s: %w", a.ID, err)
	}
	code := string(content)
	if a.Exec.Binary {
		code = base64.StdEncoding.EncodeToString(content)
	}
	a.Exec.Code = &code
	return nil
}

func (c *Client) content(ctx context.Context, id string, att attachmentJSON) ([]byte, error) {
	if code, ok := strings.CutPrefix(att.Name, inline); ok {
		return base64.URLEncoding.DecodeString(code)
	}
	stored, err := c.client.DB(c.names.Whisks).GetAttachment(ctx, id, escape(strings.TrimPrefix(att.Name, beside)))
	if err != nil {
		return nil, translate(err)
	}
	defer func() { _ = stored.Content.Close() }()
	return io.ReadAll(stored.Content)
}
