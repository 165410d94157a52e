package activation

import (
	"errors"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const actionDoc = `{"_id":"guest/a","_rev":"1-a","annotations":[{"key":"provide-api-key","value":false}],"entityType":"action",` +
	`"exec":EXEC,"limits":{"memory":256,"timeout":60000},"name":"a","namespace":"guest",` +
	`"parameters":[{"key":"k","value":[1],"init":true,"encryption":"aes-256"}],"publish":false,"updated":1795250093369,"version":"0.0.3"}`

func decode(t *testing.T, exec string) (*Action, error) {
	t.Helper()
	return DecodeAction([]byte(strings.Replace(actionDoc, "EXEC", exec, 1)), manifest(t))
}

func TestExec(t *testing.T) {
	text, zip := "text/plain", "application/octet-stream"
	at := func(name, mediaType, more string) string {
		return `{"kind":"nodejs:20","code":{"attachmentName":"` + name + `","attachmentType":"` + mediaType + `"}` + more + `}`
	}
	node := "openwhisk/action-nodejs-v20:nightly"
	for _, c := range []struct {
		name, exec string
		want       Exec
	}{
		{"string", `{"kind":"nodejs:20","code":"function main(){}"}`, Exec{Kind: "nodejs:20", Image: node, Sentinels: true, HasCode: true, Code: "function main(){}"}},
		{"default kind, main", `{"kind":" NodeJS:default ","main":"go","code":"x y"}`, Exec{Kind: "nodejs:20", Main: "go", Image: node, Sentinels: true, HasCode: true, Code: "x y"}},
		{"string that is base64", `{"kind":"nodejs:20","binary":false,"code":" UEsD "}`, Exec{Kind: "nodejs:20", Image: node, Sentinels: true, HasCode: true, Binary: true, Code: " UEsD "}},
		{"binary flag is ignored for a string", `{"kind":"nodejs:20","binary":true,"code":"x"}`, Exec{Kind: "nodejs:20", Image: node, Sentinels: true, HasCode: true, Code: "x"}},
		{"in the name", at("mem:aGk-", text, ""), Exec{Kind: "nodejs:20", Image: node, Sentinels: true, HasCode: true, Code: "hi>"}},
		{"nothing in the name", at("mem://", text, ""), Exec{Kind: "nodejs:20", Image: node, Sentinels: true, HasCode: true}},
		{"binary in the name", at("mem:aGk-", zip, `,"binary":true`), Exec{Kind: "nodejs:20", Image: node, Sentinels: true, HasCode: true, Binary: true, Code: "aGk+"}},
		{"legacy jar", `{"kind":"java:8","main":"M","jar":"UEsD"}`, Exec{Kind: "java:8", Main: "M", Image: "java8action", HasCode: true, Binary: true, Code: "UEsD"}},
		{"no attachments", `{"kind":"plain:1","code":"x"}`, Exec{Kind: "plain:1", Image: "reg:5000/plain", Sentinels: true, HasCode: true, Code: "x"}},
		{"blackbox", `{"kind":"blackbox","image":"u/i:1"}`, Exec{Kind: Blackbox, Image: "u/i:1", Pull: true}},
		{"blackbox with blank code", `{"kind":"blackbox","image":"u/i:1","code":" "}`, Exec{Kind: Blackbox, Image: "u/i:1", Pull: true}},
		{"native blackbox with code", `{"kind":"blackbox","image":"openwhisk/dockerskeleton:nightly","code":"x","main":"m"}`,
			Exec{Kind: Blackbox, Main: "m", Image: "openwhisk/dockerskeleton:nightly", Sentinels: true, HasCode: true, Code: "x"}},
	} {
		a, err := decode(t, c.exec)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		check.Equal(t, a.Exec, c.want, "%s", c.name)
	}
}

func TestExecErrors(t *testing.T) {
	at := func(name string) string {
		return `{"kind":"nodejs:20","code":{"attachmentName":"` + name + `","attachmentType":"t"}}`
	}
	for _, c := range []struct {
		name, exec string
		want       error
	}{
		{"sequence", `{"kind":"sequence","components":["/guest/a"]}`, ErrUnfetchable},
		{"other store", at("gcs:x"), ErrUnfetchable},
		{"no name in the bucket", at("s3:"), ErrUnfetchable},
		{"empty name", at(""), ErrUnfetchable},
		{"empty scheme", at("couch:"), ErrUnfetchable},
		{"broken name", at("mem:%%%"), ErrUnfetchable},
		{"unknown kind", `{"kind":"cobol:60","code":"x"}`, ErrIncompatible},
		{"no kind", `{"code":"x"}`, ErrIncompatible},
		{"no code", `{"kind":"nodejs:20"}`, ErrIncompatible},
		{"null code", `{"kind":"nodejs:20","code":null}`, ErrIncompatible},
		{"main is no string", `{"kind":"nodejs:20","code":"x","main":5}`, ErrIncompatible},
		{"main is null", `{"kind":"nodejs:20","code":"x","main":null}`, ErrIncompatible},
		{"main is needed", `{"kind":"java:8","code":"UEsD"}`, ErrIncompatible},
		{"no attachment there", `{"kind":"plain:1","code":{"attachmentName":"mem:aGk=","attachmentType":"t"}}`, ErrIncompatible},
		{"half an attachment", `{"kind":"nodejs:20","code":{"attachmentName":"mem:aGk="}}`, ErrIncompatible},
		{"no image", `{"kind":"blackbox"}`, ErrIncompatible},
		{"bad image", `{"kind":"blackbox","image":"A B"}`, ErrIncompatible},
	} {
		_, err := decode(t, c.exec)
		check.ErrorIs(t, err, c.want, "%s", c.name)
	}
}

func TestAttachmentOfTheDocument(t *testing.T) {
	exec := func(name string) string {
		return `{"kind":"nodejs:20","binary":true,"code":{"attachmentName":"` + name + `","attachmentType":"t"}},"_attachments":STUBS`
	}
	stub := `{"content_type":"t","digest":"md5-x","length":1,"stub":true}`
	for _, c := range []struct {
		name, attachment, stubs string
		want                    error
	}{
		{"uuid", "couch:1e61-2179", `{"1e61-2179":` + stub + `}`, nil},
		{"legacy name", "codefile", `{"codefile":` + stub + `}`, nil},
		{"other one", "couch:1e61", `{"2f72":` + stub + `}`, ErrUnfetchable},
		{"two", "couch:1e61", `{"1e61":` + stub + `,"2f72":` + stub + `}`, ErrUnfetchable},
		{"no stub", "couch:1e61", `{}`, ErrUnfetchable},
		{"no object", "couch:1e61", `{"1e61":1}`, ErrIncompatible},
	} {
		a, err := decode(t, strings.Replace(exec(c.attachment), "STUBS", c.stubs, 1))
		check.ErrorIs(t, err, c.want, "%s", c.name)
		if c.want != nil || err != nil {
			continue
		}
		at := a.Exec.Attachment
		check.That(check.Must(t), at != nil, "%s: %+v", c.name, at)
		check.Equal(t, at.Scheme, InDocument, "%s", c.name)
		check.That(t, strings.HasSuffix(c.attachment, at.Name), "%s: %+v", c.name, at)
		got := a.Exec.WithCode([]byte("PK"))
		check.Equal(t, got.Code, "UEs=", "%s", c.name)
		check.That(t, got.Attachment == nil, "%s: %+v", c.name, got)
	}
}

func TestAttachmentInBucket(t *testing.T) {
	a, err := decode(t, `{"kind":"nodejs:20","binary":true,"code":{"attachmentName":"s3:1e61-2179","attachmentType":"t"}}`)
	check.NoError(t, err)
	at := a.Exec.Attachment
	check.That(check.Must(t), at != nil, "%+v", at)
	check.Equal(t, at.Scheme, InS3)
	check.Equal(t, at.Name, "1e61-2179")
}

func TestActionDocument(t *testing.T) {
	a, err := decode(t, `{"kind":"nodejs:20","code":"x"}`)
	check.NoError(t, err)
	check.Equal(t, a.FQN(), "guest/a")
	check.Equal(t, a.Rev, "1-a")
	check.Equal(t, a.Version, "0.0.3")
	check.Equal(t, a.Updated, 1795250093369)
	check.Equal(t, a.Limits, Limits{60000, 256, 10, 1, 0})
	check.That(t, !a.Annotations.ProvidesAPIKey(), "%+v", a)
	check.Equal(t, a.Exec.Entry(), "main")
	p := a.Parameters[0]
	check.Equal(t, p.Key, "k")
	check.Equal(t, string(p.Value), "[1]")
	check.That(check.Must(t), p.Init, "parameter %+v", p)
	check.Equal(t, p.Encryption, "aes-256")
	whole := strings.Replace(actionDoc, "EXEC", `{"kind":"nodejs:20","code":"x"}`, 1)
	for path, required := range map[string]bool{
		"_rev": true, "namespace": true, "name": true, "exec": true, "parameters": true, "limits": true, "version": true,
		"publish": true, "annotations": true, "updated": true, "limits.memory": true, "limits.timeout": true,
		"entityType": false, "_id": false,
	} {
		_, err := DecodeAction(without(t, whole, path), manifest(t))
		check.That(t, (err != nil) == required, "without %s: %v", path, err)
		if err != nil && !errors.Is(err, ErrIncompatible) {
			t.Errorf("without %s: %v", path, err)
		}
	}
	for _, change := range [][2]string{{`"action"`, `"package"`}, {`"memory":256`, `"memory":256.5`}, {`"publish":false`, `"publish":0`}} {
		_, err := DecodeAction([]byte(strings.Replace(whole, change[0], change[1], 1)), manifest(t))
		check.ErrorIs(t, err, ErrIncompatible, "%v", change)
	}
	iso := strings.Replace(whole, "1795250093369", `"2026-11-21T08:34:53Z"`, 1)
	_, err = DecodeAction([]byte(iso), manifest(t))
	check.NoError(t, err)
}
