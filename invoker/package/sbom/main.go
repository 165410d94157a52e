// Command sbom writes the bill of materials of a Go program as SPDX 2.3: the
// modules that the program itself says it was built from, with their sums. It
// asks nobody, so the same program gives the same document.
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []item         `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type item struct {
	SPDXID           string      `json:"SPDXID"`
	Name             string      `json:"name"`
	VersionInfo      string      `json:"versionInfo"`
	DownloadLocation string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	LicenseConcluded string      `json:"licenseConcluded"`
	LicenseDeclared  string      `json:"licenseDeclared"`
	CopyrightText    string      `json:"copyrightText"`
	Checksums        []checksum  `json:"checksums,omitempty"`
	ExternalRefs     []reference `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm     string `json:"algorithm"`
	ChecksumValue string `json:"checksumValue"`
}

type reference struct {
	ReferenceCategory string `json:"referenceCategory"`
	ReferenceType     string `json:"referenceType"`
	ReferenceLocator  string `json:"referenceLocator"`
}

type relationship struct {
	SpdxElementID      string `json:"spdxElementId"`
	RelationshipType   string `json:"relationshipType"`
	RelatedSpdxElement string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

func main() {
	version := flag.String("version", "dev", "of the program")
	created := flag.String("created", "1970-01-01T00:00:00Z", "time of the document")
	flag.Parse()
	if err := write(flag.Arg(0), *version, *created); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(program, version, created string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(bill(info, sha256.Sum256(data), version, created))
}

func bill(info *debug.BuildInfo, sum [sha256.Size]byte, version, created string) document {
	hexSum := hex.EncodeToString(sum[:])
	const self = "SPDXRef-gpuwhisk"
	d := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: "gpuwhisk-" + version,
		DocumentNamespace: "https://github.com/gpuwhisk/gpuwhisk/spdx/" + hexSum,
		CreationInfo:      creation{created, []string{"Tool: gpuwhisk-sbom"}},
		Packages: []item{{
			SPDXID: self, Name: info.Main.Path, VersionInfo: version, DownloadLocation: "https://github.com/gpuwhisk/gpuwhisk",
			LicenseConcluded: "Apache-2.0", LicenseDeclared: "Apache-2.0", CopyrightText: unknown,
			Checksums: []checksum{{"SHA256", hexSum}},
		}},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", self}},
	}
	add := func(name, version, sum, purl string) {
		id := fmt.Sprintf("SPDXRef-module-%d", len(d.Packages))
		p := item{SPDXID: id, Name: name, VersionInfo: version, DownloadLocation: unknown, LicenseConcluded: unknown,
			LicenseDeclared: unknown, CopyrightText: unknown,
			ExternalRefs: []reference{{"PACKAGE-MANAGER", "purl", purl}}}
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(raw) == sha256.Size {
			p.Checksums = []checksum{{"SHA256", hex.EncodeToString(raw)}}
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, relationship{self, "CONTAINS", id})
	}
	add("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "", "pkg:golang/stdlib@"+strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, m.Sum, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	return d
}
