package activation

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Blackbox is the kind of an action that brings its own image.
const Blackbox = "blackbox"

const sequenceKind = "sequence"

// Exec is how an action is run.
type Exec struct {
	Kind       string // resolved: never "<family>:default"
	Main       string // empty: the runtime's default
	Binary     bool   // the code is base64 text of an archive or executable
	Image      string // reference for the container engine
	Pull       bool   // the image is a user's and must be pulled
	Sentinels  bool   // the runtime marks the end of an activation's logs
	HasCode    bool   // false for an image that holds its own code
	Code       string // valid once Attachment is nil
	Attachment *Attachment
}

// Entry is the name of the function to call.
func (e Exec) Entry() string {
	return cmp.Or(e.Main, "main")
}

// AttachmentScheme is where the bytes of an attachment are.
type AttachmentScheme uint8

// Stores of attachments.
const (
	InName     AttachmentScheme = iota // in the name itself, as base64
	InDocument                         // attached to the action's document
	InS3                               // in a bucket beside the database
)

// Attachment is code kept apart from the action's document.
type Attachment struct {
	Scheme AttachmentScheme
	Name   string // of the attachment, in the document or in the bucket
	Type   string // media type
	inline []byte
}

// WithCode returns the exec with the bytes of its attachment in place: base64
// if they are binary, else text.
func (e Exec) WithCode(data []byte) Exec {
	e.Attachment = nil
	e.HasCode = true
	if e.Binary {
		e.Code = base64.StdEncoding.EncodeToString(data)
		return e
	}
	e.Code = string(data)
	if !utf8.ValidString(e.Code) {
		e.Code = strings.ToValidUTF8(e.Code, "\uFFFD")
	}
	return e
}

// execFields is exec as the document has it, before the manifest is asked.
type execFields struct {
	kind, main, image string
	binary            bool
	code, jar         codeField
}

// codeField is code that is a string, an attachment, or not there.
type codeField struct {
	present    bool
	text       string
	attachment *attachmentFields
}

type attachmentFields struct{ name, mediaType string }

func (p *parser) exec() execFields {
	var e execFields
	p.fields(
		required("kind", func() { e.kind = strings.ToLower(strings.TrimSpace(p.str())) }),
		allowed("main", func() { e.main = p.str() }),
		allowed("image", func() { e.image = p.str() }),
		allowed("binary", func() { e.binary = p.bool() }),
		allowed("code", func() { e.code = p.code() }),
		allowed("jar", func() { e.jar = p.code() }), // where Java actions once kept their code
	)
	p.require(e.kind != "", "kind")
	return e
}

func (p *parser) code() codeField {
	if p.peek() == '"' {
		return codeField{present: true, text: p.str()}
	}
	var a attachmentFields
	p.fields(
		required("attachmentName", func() { a.name = p.str() }),
		required("attachmentType", func() { a.mediaType = p.str() }),
	)
	return codeField{present: true, attachment: &a}
}

// resolve turns the exec of a document into an Exec that can be run.
func (m *Manifest) resolve(f execFields) (Exec, error) {
	switch f.kind {
	case sequenceKind:
		return Exec{}, fmt.Errorf("%w: a sequence cannot be run by an invoker", ErrUnfetchable)
	case Blackbox:
		return m.blackbox(f)
	}
	r, ok := m.Runtime(f.kind)
	if !ok {
		return Exec{}, fmt.Errorf("%w: kind %q is not in the runtimes manifest", ErrIncompatible, f.kind)
	}
	e := Exec{
		Kind: r.Kind, Main: f.main, Image: m.ManagedReference(r.Image),
		Sentinels: r.SentinelledLogs, HasCode: true,
	}
	code := f.code
	if !code.present {
		code = f.jar
	}
	switch {
	case !code.present:
		return Exec{}, fmt.Errorf("%w: no code", ErrIncompatible)
	case !r.Attached && code.attachment != nil:
		return Exec{}, fmt.Errorf("%w: kind %q takes no attached code", ErrIncompatible, r.Kind)
	case r.RequireMain && f.main == "":
		return Exec{}, fmt.Errorf("%w: kind %q needs main", ErrIncompatible, r.Kind)
	}
	return e.withField(code, f.binary)
}

func (m *Manifest) blackbox(f execFields) (Exec, error) {
	image, err := ParseImage(f.image)
	if err != nil {
		return Exec{}, fmt.Errorf("%w: %w", ErrIncompatible, err)
	}
	native := m.native(image)
	e := Exec{
		Kind: Blackbox, Main: f.main, Image: m.userReference(image),
		Pull: !native, Sentinels: native,
	}
	if !f.code.present || f.code.attachment == nil && strings.TrimSpace(f.code.text) == "" {
		return e, nil
	}
	return e.withField(f.code, f.binary)
}

func (e Exec) withField(code codeField, binary bool) (Exec, error) {
	e.HasCode = true
	if code.attachment == nil {
		e.Code = code.text
		e.Binary = IsBinaryCode(code.text)
		return e, nil
	}
	a, err := code.attachment.resolve()
	if err != nil {
		return Exec{}, err
	}
	e.Binary, e.Attachment = binary, a
	return e, nil
}

// resolve reads the name of an attachment, which is a URI.
func (f attachmentFields) resolve() (*Attachment, error) {
	scheme, rest, found := strings.Cut(f.name, ":")
	a := &Attachment{Type: f.mediaType}
	switch {
	case !found && f.name != "":
		a.Scheme, a.Name = InDocument, f.name
	case scheme == "couch" && rest != "":
		a.Scheme, a.Name = InDocument, rest
	case scheme == "s3" && rest != "":
		a.Scheme, a.Name = InS3, rest
	case scheme == "mem":
		// The URI of empty code has an authority instead of a path.
		data, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(rest, "//"))
		if err != nil {
			return nil, fmt.Errorf("%w: code in the attachment's name is no base64", ErrUnfetchable)
		}
		a.Scheme, a.inline = InName, data
	default:
		return nil, fmt.Errorf("%w: attachment store not known", ErrUnfetchable)
	}
	return a, nil
}

// IsBinaryCode reports whether code that is a string counts as binary: the original
// decides by the text and ignores the stored flag (Exec.isBinaryCode).
func IsBinaryCode(code string) bool {
	t := strings.TrimFunc(code, func(r rune) bool { return r <= ' ' })
	if t == "" || len(t)%4 != 0 {
		return false
	}
	body := strings.TrimSuffix(strings.TrimSuffix(t, "="), "=")
	for i := range len(body) {
		if c := body[i]; !isWord(c) && c != '+' && c != '/' || c == '_' {
			return false
		}
	}
	return len(t)-len(body) <= 2
}
