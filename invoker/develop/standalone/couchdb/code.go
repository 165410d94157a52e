package couchdb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
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

// attachmentJSON names code that is stored apart.
type attachmentJSON struct {
	Name   string `json:"attachmentName"`
	Type   string `json:"attachmentType"`
	Digest string `json:"digest,omitempty"`
	Length int    `json:"length,omitempty"`
}

func codeBytes(e *entity.Exec) (content []byte, mediaType string, err error) {
	if !e.Binary {
		return []byte(*e.Code), textCode, nil
	}
	content, err = base64.StdEncoding.DecodeString(strings.TrimFunc(*e.Code, func(r rune) bool { return r <= ' ' }))
	if err != nil {
		return nil, "", fmt.Errorf("decode binary code: %w", err)
	}
	return content, binaryCode, nil
}

func inlineAttachment(content []byte, mediaType string) json.RawMessage {
	sum := sha256.Sum256(content)
	b, _ := json.Marshal(attachmentJSON{
		Name: "mem:" + base64.URLEncoding.EncodeToString(content), Type: mediaType,
		Digest: "sha256-" + hex.EncodeToString(sum[:]), Length: len(content),
	})
	return b
}

// newAttachment makes the name of code that is stored beside its document.
func newAttachment(mediaType string) (name string, attachment json.RawMessage) {
	name = strings.ToLower(rand.Text())
	attachment, _ = json.Marshal(attachmentJSON{Name: "couch:" + name, Type: mediaType})
	return name, attachment
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
	if inline, ok := strings.CutPrefix(att.Name, "mem:"); ok {
		return base64.URLEncoding.DecodeString(inline)
	}
	return c.Attachment(ctx, c.names.Whisks, id, strings.TrimPrefix(att.Name, "couch:"))
}
