// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Attestations of an image: its contents (SPDX) and its build (SLSA provenance). Both are in-toto statements about the digest of the
// image, unsigned: the publisher of the image signs them. They are the layers of one manifest next to the image in the index, annotated
// as by BuildKit, which refers to the image by its subject.
const (
	inToto         = "application/vnd.in-toto+json"
	statementType  = "https://in-toto.io/Statement/v1"
	spdxPredicate  = "https://spdx.dev/Document"
	slsaPredicate  = "https://slsa.dev/provenance/v1"
	buildTypeOfUs  = "/build/image@v1" // below the project's home
	noLicenceKnown = "NOASSERTION"
)

// statement is an in-toto statement: a predicate about subjects.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     any        `json:"predicate"`
}

// resource is something with a digest.
type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// attest returns the manifest with the SBOM and the provenance of an image.
func (s *source) attest(b binary, image v1.Image, platform *v1.Platform, roots string) (manifest v1.Image, bom []byte, err error) {
	subject, err := descriptor(image)
	if err != nil {
		return nil, nil, err
	}
	info, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the modules of %s: %w", b.path, err)
	}
	contents, err := s.spdx(b, info, roots)
	if err != nil {
		return nil, nil, err
	}
	manifest, err = mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		&v1.ConfigFile{OS: "unknown", Architecture: "unknown", Created: v1.Time{Time: s.created}, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, nil, err
	}
	of := []resource{{Name: s.repository + "@" + platform.String(), Digest: map[string]string{subject.Digest.Algorithm: subject.Digest.Hex}}}
	for _, x := range []struct {
		kind      string
		predicate any
	}{{spdxPredicate, contents}, {slsaPredicate, s.provenance(b, info, platform)}} {
		body, err := json.Marshal(statement{statementType, of, x.kind, x.predicate})
		if err != nil {
			return nil, nil, err
		}
		manifest, err = mutate.Append(manifest, mutate.Addendum{Layer: static.NewLayer(body, inToto), MediaType: inToto, Annotations: map[string]string{"in-toto.io/predicate-type": x.kind}})
		if err != nil {
			return nil, nil, err
		}
	}
	if bom, err = json.MarshalIndent(contents, "", "  "); err != nil {
		return nil, nil, err
	}
	return mutate.Subject(manifest, subject).(v1.Image), append(bom, '\n'), nil
}

func descriptor(image v1.Image) (d v1.Descriptor, err error) {
	if d.Digest, err = image.Digest(); err != nil {
		return d, err
	}
	if d.Size, err = image.Size(); err != nil {
		return d, err
	}
	d.MediaType, err = image.MediaType()
	return d, err
}

// provenance returns the sources and parameters of the build. Times are those of the source, so that each commit has one provenance.
func (s *source) provenance(b binary, info *buildinfo.BuildInfo, platform *v1.Platform) map[string]any {
	from := resource{URI: "git+" + s.home}
	if s.revision != "" {
		from.Digest = map[string]string{"gitCommit": s.revision}
	}
	settings := map[string]string{}
	for _, x := range info.Settings {
		settings[x.Key] = x.Value
	}
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType":            s.home + buildTypeOfUs,
			"externalParameters":   map[string]any{"repository": s.repository, "version": s.version, "platform": platform.String(), "command": "make image"},
			"internalParameters":   map[string]any{"settings": settings},
			"resolvedDependencies": []resource{from, {Name: "go", URI: "pkg:golang/toolchain@" + info.GoVersion}},
		},
		"runDetails": map[string]any{
			"builder":  map[string]any{"id": s.home + buildTypeOfUs, "version": map[string]string{"go": runtime.Version()}},
			"metadata": map[string]any{"finishedOn": s.created.Format(time.RFC3339)},
		},
	}
}

// spdxDocument is the subset of SPDX 2.3 that is written.
type spdxDocument struct {
	SPDXID        string             `json:"SPDXID"`
	Version       string             `json:"spdxVersion"`
	DataLicense   string             `json:"dataLicense"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	SPDXID    string         `json:"SPDXID"`
	Name      string         `json:"name"`
	Version   string         `json:"versionInfo,omitempty"`
	Location  string         `json:"downloadLocation"`
	Analyzed  bool           `json:"filesAnalyzed"`
	Concluded string         `json:"licenseConcluded"`
	Declared  string         `json:"licenseDeclared"`
	Copyright string         `json:"copyrightText"`
	Comment   string         `json:"comment,omitempty"`
	Checksums []spdxChecksum `json:"checksums,omitempty"`
	Refs      []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// spdx lists what is in the image: the binary, the modules that were compiled into it, Go's standard library, and the CA certificates.
func (s *source) spdx(b binary, info *buildinfo.BuildInfo, roots string) (*spdxDocument, error) {
	body, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	name := fmt.Sprintf("dovetail-%s-%s-%s", s.version, b.os, b.arch)
	out := &spdxDocument{
		SPDXID: "SPDXRef-DOCUMENT", Version: "SPDX-2.3", DataLicense: "CC0-1.0", Name: name, Namespace: s.home + "/spdx/" + name + "-" + digest,
		Creation: spdxCreation{s.created.Format(time.RFC3339), []string{"Tool: dovetail-build-image"}},
	}
	add := func(kind string, p spdxPackage) {
		p.Copyright = noLicenceKnown
		if p.Declared == "" {
			p.Declared = noLicenceKnown
		}
		p.Concluded = p.Declared
		from := "SPDXRef-DOCUMENT"
		if len(out.Packages) > 0 {
			from = out.Packages[0].SPDXID
		}
		out.Packages = append(out.Packages, p)
		out.Relationships = append(out.Relationships, spdxRelationship{from, kind, p.SPDXID})
	}
	home := "git+" + s.home
	if s.revision != "" {
		home += "@" + strings.TrimSuffix(s.revision, "-dirty")
	}
	add("DESCRIBES", spdxPackage{SPDXID: spdxID(info.Main.Path), Name: info.Main.Path, Version: s.version, Location: home, Declared: "Apache-2.0",
		Checksums: []spdxChecksum{{"SHA256", digest}}, Refs: purl(info.Main.Path, s.version)})
	for _, m := range info.Deps {
		p := spdxPackage{SPDXID: spdxID(m.Path), Name: m.Path, Version: m.Version, Location: noLicenceKnown, Comment: "go.sum " + m.Sum, Refs: purl(m.Path, m.Version)}
		if r := m.Replace; r != nil {
			p.Name, p.Version, p.Comment, p.Refs = r.Path, r.Version, "in place of "+m.Path+", go.sum "+r.Sum, purl(r.Path, r.Version)
		}
		add("DEPENDS_ON", p)
	}
	std := strings.TrimPrefix(info.GoVersion, "go")
	add("DEPENDS_ON", spdxPackage{SPDXID: "SPDXRef-stdlib", Name: "stdlib", Version: std, Location: "https://go.dev/dl/", Declared: "BSD-3-Clause", Refs: purl("stdlib", std)})
	add("CONTAINS", spdxPackage{SPDXID: "SPDXRef-ca-certificates", Name: "ca-certificates", Location: "https://" + rootsModule, Comment: roots})
	return out, nil
}

var notInSPDXID = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

// spdxID is the identifier of a module; the sum keeps two apart that differ in other characters alone.
func spdxID(path string) string {
	sum := sha256.Sum256([]byte(path))
	return "SPDXRef-" + notInSPDXID.ReplaceAllString(path, "-") + "-" + hex.EncodeToString(sum[:4])
}

// purl is how scanners for vulnerabilities know a Go module.
func purl(path, version string) []spdxRef {
	return []spdxRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")}}
}
