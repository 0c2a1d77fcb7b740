// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The image is written twice, by building it anew, and read back: the same bytes, what the chart runs, and a binary that runs with
// nothing else around it.
func TestImage(t *testing.T) {
	said := ""
	var sums [2][32]byte
	var dir string
	for i := range sums {
		dir = t.TempDir()
		var out, progress bytes.Buffer
		if err := run(options{root: "../..", out: dir, platforms: []string{"linux/amd64"}}, &out, &progress); err != nil {
			t.Fatalf("%v\n%s", err, progress.String())
		}
		said = out.String()
		b, err := os.ReadFile(filepath.Join(dir, "dovetail-"+appVersion(t)+".tar"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = sha256.Sum256(b)
	}
	if sums[0] != sums[1] {
		t.Error("two runs wrote different tarballs")
	}
	c, err := readChart("../..")
	if err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "oci"))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(dir, "oci"))
	m, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	reference := c.Controller.Image.Repository + ":" + c.AppVersion
	if len(m.Manifests) != 1 || m.Manifests[0].MediaType != types.OCIImageIndex || m.Manifests[0].Annotations["io.containerd.image.name"] != reference {
		t.Fatalf("the layout has %+v, want one index named %s", m.Manifests, reference)
	}
	if want := "digest    " + m.Manifests[0].Digest.String(); !strings.Contains(said, want) || !strings.Contains(said, reference) {
		t.Errorf("it said\n%s\nwant %q and %q in it", said, want, reference)
	}
	platforms, err := index.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	pm, err := platforms.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(pm.Manifests) != 2 || pm.Manifests[0].Platform.String() != "linux/amd64" || pm.Manifests[1].Platform.String() != "unknown/unknown" {
		t.Fatalf("platforms are %+v", pm.Manifests)
	}
	if err := validate.Index(mutate.RemoveManifests(platforms, match.Digests(pm.Manifests[1].Digest))); err != nil { // it knows images alone
		t.Errorf("the layout does not hold: %v", err)
	}
	attested(t, filepath.Join(dir, "oci"), platforms, pm.Manifests[0], pm.Manifests[1], filepath.Join(dir, "dovetail-"+c.AppVersion+"-linux-amd64.spdx.json"))
	image, err := platforms.Image(pm.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d:%d", c.Controller.SecurityContext.RunAsUser, c.Controller.SecurityContext.RunAsGroup); config.Config.User != want {
		t.Errorf("it runs as %q, and the chart as %q", config.Config.User, want)
	}
	for label, want := range map[string]string{
		"version": "^" + regexp.QuoteMeta(c.AppVersion) + "$", "source": "^https://", "licenses": "^Apache-2.0$", "created": `^\d{4}-`, "revision": `^([0-9a-f]{40}(-dirty)?)?$`,
	} {
		if have := config.Config.Labels["org.opencontainers.image."+label]; !regexp.MustCompile(want).MatchString(have) {
			t.Errorf("label %s is %q, want %s", label, have, want)
		}
	}
	if config.Created.IsZero() || slices.ContainsFunc(config.History, func(h v1.History) bool { return !h.Created.Equal(config.Created.Time) }) {
		t.Errorf("created %s, history %+v", config.Created, config.History)
	}

	root := t.TempDir()
	owners := unpack(t, image, root)
	for path, id := range owners {
		if id != "0:0" {
			t.Errorf("%s belongs to %s, want root", path, id)
		}
	}
	out := runIn(t, root, config, "--help")
	if !strings.Contains(out, "Usage:\n  dovetail ") {
		t.Errorf("--help says\n%s", out)
	}
	if out := runIn(t, root, config, "version"); out != "dovetail "+c.AppVersion+"\n" {
		t.Errorf("its version is %q", out)
	}

	// What AWS' endpoints are signed by is among the roots.
	roots, err := os.ReadFile(filepath.Join(root, certificates))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^# \d+ roots of Mozilla's NSS as of 20\d\d-\d\d-\d\d \(`).Match(roots) {
		t.Errorf("the roots begin with %q", roots[:min(len(roots), 100)])
	}
	names := map[string]bool{}
	for block, rest := pem.Decode(roots); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		names[cert.Subject.CommonName] = true
	}
	if !names["Amazon Root CA 1"] || !names["ISRG Root X1"] || len(names) < 80 {
		t.Errorf("there are %d roots, Amazon Root CA 1: %t, ISRG Root X1: %t", len(names), names["Amazon Root CA 1"], names["ISRG Root X1"])
	}

	// Docker without OCI layouts reads manifest.json of the tarball.
	tag, err := name.NewTag(reference)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tarball.ImageFromPath(filepath.Join(dir, "dovetail-"+c.AppVersion+".tar"), &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(loaded); err != nil {
		t.Errorf("the tarball does not hold: %v", err)
	}
	want, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if have, err := loaded.ConfigName(); err != nil || have != want {
		t.Errorf("the tarball's image is %s, the layout's %s (%v)", have, want, err)
	}
}

func appVersion(t *testing.T) string {
	t.Helper()
	c, err := readChart("../..")
	if err != nil || c.AppVersion == "" {
		t.Fatalf("the chart has no appVersion: %v", err)
	}
	return c.AppVersion
}

// unpack writes an image's files below dir, and says whose each is.
func unpack(t *testing.T, image v1.Image, dir string) map[string]string {
	t.Helper()
	owners := map[string]string{}
	r := mutate.Extract(image)
	defer r.Close()
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		owners[h.Name] = fmt.Sprintf("%d:%d", h.Uid, h.Gid)
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var b []byte
			if b, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, b, os.FileMode(h.Mode)&0o777)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(owners) == 0 {
		t.Fatal("the image has no files")
	}
	return owners
}

// runIn runs the image's entrypoint in its files: as its user with nothing else to be seen, where this process may do that, else as
// itself.
func runIn(t *testing.T, root string, config *v1.ConfigFile, args ...string) string {
	t.Helper()
	if len(config.Config.Entrypoint) != 1 {
		t.Fatalf("the entrypoint is %q", config.Config.Entrypoint)
	}
	cmd := exec.Command(config.Config.Entrypoint[0], args...)
	cmd.Env = config.Config.Env
	if os.Getuid() == 0 {
		var uid, gid uint32
		if _, err := fmt.Sscanf(config.Config.User, "%d:%d", &uid, &gid); err != nil {
			t.Fatalf("user %q: %v", config.Config.User, err)
		}
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	} else {
		cmd.Path = filepath.Join(root, config.Config.Entrypoint[0])
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run %s %q in the image: %v\n%s", cmd.Path, args, err, out)
	}
	return string(out)
}

// holds: every blob of a layout is what its name says.
func holds(t *testing.T, dir string) {
	t.Helper()
	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil || len(blobs) < 8 {
		t.Fatalf("%d blobs, %v", len(blobs), err)
	}
	for _, file := range blobs {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if sum := fmt.Sprintf("%x", sha256.Sum256(body)); sum != filepath.Base(file) {
			t.Errorf("%s has the sum %s", file, sum)
		}
	}
}

// attested: beside the image is what is in it and how it was built, both about its digest, and found from it.
func attested(t *testing.T, dir string, index v1.ImageIndex, image, by v1.Descriptor, file string) {
	t.Helper()
	if by.Annotations["vnd.docker.reference.type"] != "attestation-manifest" || by.Annotations["vnd.docker.reference.digest"] != image.Digest.String() {
		t.Errorf("annotations %v", by.Annotations)
	}
	said, err := index.Image(by.Digest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := said.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if m.Subject == nil || m.Subject.Digest != image.Digest || m.Subject.Size != image.Size || m.Subject.MediaType != image.MediaType {
		t.Errorf("its subject is %+v, want %+v", m.Subject, image)
	}
	if len(m.Layers) != 2 {
		t.Fatalf("statements %+v", m.Layers)
	}
	for i, kind := range []string{spdxPredicate, slsaPredicate} {
		r, err := layout.Path(dir).Blob(m.Layers[i].Digest)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var st struct {
			Type          string `json:"_type"`
			Subject       []resource
			PredicateType string
			Predicate     json.RawMessage
		}
		if err := json.NewDecoder(r).Decode(&st); err != nil {
			t.Fatal(err)
		}
		if st.Type != statementType || st.PredicateType != kind || m.Layers[i].Annotations["in-toto.io/predicate-type"] != kind || len(st.Subject) != 1 || st.Subject[0].Digest["sha256"] != image.Digest.Hex {
			t.Errorf("statement %d is a %s of %+v", i, st.PredicateType, st.Subject)
		}
		if kind == slsaPredicate {
			for _, want := range []string{"gitCommit", "pkg:golang/toolchain@go1", "linux/amd64", "CGO_ENABLED", "make image"} {
				if !strings.Contains(string(st.Predicate), want) {
					t.Errorf("the provenance has no %s: %s", want, st.Predicate)
				}
			}
			continue
		}
		var have, onDisk spdxDocument
		body, err := os.ReadFile(file)
		if err == nil {
			err = errors.Join(json.Unmarshal(st.Predicate, &have), json.Unmarshal(body, &onDisk))
		}
		if err != nil || !reflect.DeepEqual(have, onDisk) {
			t.Errorf("%s is not what the image has: %v", file, err)
		}
		complete(t, &have)
	}
}

// complete: the SBOM has every module that the product requires directly, each thing once, and nothing without a way to it.
func complete(t *testing.T, d *spdxDocument) {
	t.Helper()
	names, ids, reached := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, p := range d.Packages {
		if ids[p.SPDXID] || !regexp.MustCompile(`^SPDXRef-[a-zA-Z0-9.-]+$`).MatchString(p.SPDXID) {
			t.Errorf("identifier %s", p.SPDXID)
		}
		names[p.Name], ids[p.SPDXID] = true, true
	}
	for _, r := range d.Relationships {
		reached[r.To] = true
	}
	for id := range ids {
		if !reached[id] {
			t.Errorf("nothing leads to %s", id)
		}
	}
	for _, want := range []string{"github.com/dovetail-sh/dovetail", "k8s.io/client-go", "github.com/aws/aws-sdk-go-v2/service/ec2", "stdlib", "ca-certificates"} {
		if !names[want] {
			t.Errorf("it has no %s", want)
		}
	}
	if d.Version != "SPDX-2.3" || len(d.Packages) < 30 {
		t.Errorf("%s with %d packages", d.Version, len(d.Packages))
	}
}
