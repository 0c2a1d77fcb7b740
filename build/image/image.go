// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// user is nonroot of the usual images without a shell, and runAsUser and runAsGroup of the chart.
	user         = "65532"
	entrypoint   = "/dovetail"
	certificates = "etc/ssl/certs/ca-certificates.crt" // where Go looks for them first
	rootsModule  = "golang.org/x/crypto/x509roots/fallback"
)

// source describes the origin of an image.
type source struct {
	repository, version, revision, home, description string
	created                                          time.Time
	licence                                          []byte
}

type binary struct{ os, arch, path string }

// written describes a written image.
type written struct {
	reference, digest, roots, layout, tarball string
	platforms                                 []writtenPlatform
}

type writtenPlatform struct {
	name, digest string
	bytes        int64  // of its layers, compressed
	sbom         string // the file of its SBOM
}

// write builds the images and writes their index to dir: the layout oci/, and dovetail-VERSION.tar with the same contents and with
// manifest.json, for versions of Docker that do not support OCI layouts.
func write(dir string, s source, binaries []binary) (written, error) {
	w := written{reference: s.repository + ":" + s.version, layout: filepath.Join(dir, "oci"), tarball: filepath.Join(dir, "dovetail-"+s.version+".tar")}
	roots, from, err := trustedRoots()
	if err != nil {
		return w, err
	}
	w.roots = from
	base, err := layer([]file{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, body: []byte("root:x:0:\nnonroot:x:" + user + ":\n")},
		{name: "etc/passwd", mode: 0o644, body: []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + user + ":" + user + ":nonroot:/:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: certificates, mode: 0o644, body: roots},
		{name: "licenses/", mode: 0o755},
		{name: "licenses/dovetail", mode: 0o644, body: s.licence},
	})
	if err != nil {
		return w, fmt.Errorf("make the layer of certificates: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var archived []dockerManifest
	var statements []mutate.IndexAddendum
	for _, b := range binaries {
		image, err := s.image(b, base, from)
		if err != nil {
			return w, fmt.Errorf("make the image for %s/%s: %w", b.os, b.arch, err)
		}
		platform := &v1.Platform{OS: b.os, Architecture: b.arch}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
		m, err := image.Manifest()
		if err != nil {
			return w, fmt.Errorf("make the image for %s: %w", platform, err)
		}
		digest, err := image.Digest()
		if err != nil {
			return w, fmt.Errorf("make the image for %s: %w", platform, err)
		}
		p := writtenPlatform{name: platform.String(), digest: digest.String(), sbom: filepath.Join(dir, fmt.Sprintf("dovetail-%s-%s-%s.spdx.json", s.version, b.os, b.arch))}
		said, bom, err := s.attest(b, image, platform, from)
		if err != nil {
			return w, fmt.Errorf("create the attestations of the image for %s: %w", platform, err)
		}
		if err := os.WriteFile(p.sbom, bom, 0o644); err != nil {
			return w, err
		}
		statements = append(statements, mutate.IndexAddendum{Add: said, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"},
			Annotations: map[string]string{"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": digest.String()}}})
		d := dockerManifest{Config: blob(m.Config.Digest), RepoTags: []string{w.reference}}
		if len(archived) > 0 { // a tag is of one platform there
			d.RepoTags[0] += "-" + b.arch
		}
		for _, l := range m.Layers {
			p.bytes += l.Size
			d.Layers = append(d.Layers, blob(l.Digest))
		}
		w.platforms, archived = append(w.platforms, p), append(archived, d)
	}
	index = mutate.AppendManifests(index, statements...)
	index = mutate.Annotations(index, s.annotations(from)).(v1.ImageIndex)
	digest, err := index.Digest()
	if err != nil {
		return w, fmt.Errorf("make the index: %w", err)
	}
	w.digest = digest.String()
	if err := os.RemoveAll(w.layout); err != nil {
		return w, fmt.Errorf("remove earlier output: %w", err)
	}
	path, err := layout.Write(w.layout, empty.Index)
	if err != nil {
		return w, fmt.Errorf("write the layout: %w", err)
	}
	// The first is how containerd, Docker and podman name what they load, the second how skopeo finds it.
	err = path.AppendIndex(index, layout.WithAnnotations(map[string]string{"io.containerd.image.name": w.reference, "org.opencontainers.image.ref.name": s.version}))
	if err != nil {
		return w, fmt.Errorf("write the layout: %w", err)
	}
	if err := archive(w.tarball, w.layout, archived); err != nil {
		return w, fmt.Errorf("write the tarball: %w", err)
	}
	return w, nil
}

func (s *source) image(b binary, base v1.Layer, roots string) (v1.Image, error) {
	body, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	top, err := layer([]file{{name: strings.TrimPrefix(entrypoint, "/"), mode: 0o755, body: body}})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: s.created}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), &v1.ConfigFile{
		OS: b.os, Architecture: b.arch, Created: created, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user + ":" + user, Entrypoint: []string{entrypoint}, WorkingDir: "/", Labels: s.annotations(roots),
			Env: []string{"PATH=/", "SSL_CERT_FILE=/" + certificates}, ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
		},
	})
	if err != nil {
		return nil, err
	}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: base, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "build/image", Comment: roots}},
		mutate.Addendum{Layer: top, MediaType: types.OCILayer, History: v1.History{Created: created, CreatedBy: "build/image", Comment: "dovetail " + s.version}})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, s.annotations(roots)).(v1.Image), nil
}

// annotations returns the annotations of an image, which are also its labels.
func (s *source) annotations(roots string) map[string]string {
	out := map[string]string{
		"org.opencontainers.image.title": "dovetail", "org.opencontainers.image.description": s.description,
		"org.opencontainers.image.version": s.version, "org.opencontainers.image.created": s.created.Format(time.RFC3339),
		"org.opencontainers.image.url": s.home, "org.opencontainers.image.source": s.home, "org.opencontainers.image.licenses": "Apache-2.0",
		"sh.dovetail.image.ca-certificates": roots,
	}
	if s.revision != "" {
		out["org.opencontainers.image.revision"] = s.revision
	}
	return out
}

type file struct {
	name string // a folder's ends in /
	mode int64
	body []byte
}

// layer returns a layer of files owned by root, with modification time 0.
func layer(files []file) (v1.Layer, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, f := range files {
		if err := entry(t, f); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}

func entry(t *tar.Writer, f file) error {
	h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.body)), Typeflag: tar.TypeReg, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if strings.HasSuffix(f.name, "/") {
		h.Typeflag = tar.TypeDir
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(f.body)
	return err
}

// dockerManifest is an image in the manifest.json of `docker save`.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func blob(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// archive writes a layout and manifest.json as a tarball.
func archive(to, dir string, images []dockerManifest) (err error) {
	manifest, err := json.Marshal(images)
	if err != nil {
		return err
	}
	names := []string{"oci-layout", "index.json"}
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
	if err != nil {
		return err
	}
	slices.Sort(blobs)
	for _, b := range blobs {
		rel, err := filepath.Rel(dir, b)
		if err != nil {
			return err
		}
		names = append(names, filepath.ToSlash(rel))
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	t := tar.NewWriter(out)
	if err := entry(t, file{name: "manifest.json", mode: 0o644, body: manifest}); err != nil {
		return err
	}
	for _, name := range names {
		body, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := entry(t, file{name: name, mode: 0o644, body: body}); err != nil {
			return err
		}
	}
	return t.Close()
}

// trustedRoots returns Mozilla's root certificates for TLS as PEM, and their source. Certificates with trust conditions are excluded,
// because a PEM file cannot express the conditions.
func trustedRoots() (out []byte, from string, err error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, "", fmt.Errorf("read the version of %s: no build information", rootsModule)
	}
	at := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == rootsModule })
	if at < 0 {
		return nil, "", fmt.Errorf("read the version of %s: module not found in the build information", rootsModule)
	}
	version := info.Deps[at].Version
	parts := strings.Split(version, "-") // v0.0.0-20260101000000-0123456789ab
	day := "of an unknown day"
	if len(parts) == 3 && len(parts[1]) == 14 {
		if t, err := time.Parse("20060102150405", parts[1]); err == nil {
			day = "as of " + t.Format(time.DateOnly)
		}
	}
	var b bytes.Buffer
	n, left := 0, 0
	for r := range bundle.Roots() {
		if r.Constraint != nil {
			left++
			continue
		}
		c, err := x509.ParseCertificate(r.Certificate)
		if err != nil {
			return nil, "", fmt.Errorf("read a root of %s: %w", rootsModule, err)
		}
		fmt.Fprintf(&b, "\n# %s\n", c.Subject)
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}); err != nil {
			return nil, "", fmt.Errorf("write a root of %s: %w", rootsModule, err)
		}
		n++
	}
	from = fmt.Sprintf("%d roots of Mozilla's NSS %s (%s %s); left out: %d trusted under conditions", n, day, rootsModule, version, left)
	return append([]byte("# "+from+"\n"), b.Bytes()...), from, nil
}
