// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Command image builds dovetail's container image without Docker, daemon or root, and reproducibly for each commit. It builds the binary
// for each platform, adds CA certificates and an unprivileged user, and writes one index of all platforms as an OCI layout and as a
// tarball. It does not push. Start reading at run; image.go defines the contents of an image.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

func main() {
	o := options{}
	platforms := ""
	flag.StringVar(&o.root, "root", "../..", "root of the repository")
	flag.StringVar(&o.out, "out", "bin/image", "output directory, relative to the root of the repository; existing output is replaced")
	flag.StringVar(&o.repository, "repository", "", "image name without tag (default: controller.image.repository of the chart's values)")
	flag.StringVar(&o.version, "version", "", "version and tag of the image (default: the chart's appVersion)")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64", "comma-separated platforms")
	flag.Parse()
	o.platforms = strings.Split(platforms, ",")
	if err := run(o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type options struct {
	root, out, repository, version string
	platforms                      []string
}

// chart contains the values of the Helm chart that refer to the image.
type chart struct {
	AppVersion  string `json:"appVersion"`
	Description string `json:"description"`
	Home        string `json:"home"`
	Controller  struct {
		Image struct {
			Repository string `json:"repository"`
		} `json:"image"`
		SecurityContext struct {
			RunAsUser  int64 `json:"runAsUser"`
			RunAsGroup int64 `json:"runAsGroup"`
		} `json:"securityContext"`
	} `json:"controller"`
}

func readChart(root string) (chart, error) {
	c := chart{}
	for _, name := range []string{"Chart.yaml", "values.yaml"} {
		b, err := os.ReadFile(filepath.Join(root, "charts", "dovetail", name))
		if err != nil {
			return c, fmt.Errorf("read the chart: %w", err)
		}
		if err := yaml.Unmarshal(b, &c); err != nil {
			return c, fmt.Errorf("read the chart: %s: %w", name, err)
		}
	}
	return c, nil
}

func run(o options, out, progress io.Writer) error {
	c, err := readChart(o.root)
	if err != nil {
		return err
	}
	s := source{repository: o.repository, version: o.version, home: c.Home, description: c.Description}
	if s.repository == "" {
		s.repository = c.Controller.Image.Repository
	}
	if s.version == "" {
		s.version = c.AppVersion
	}
	if s.licence, err = os.ReadFile(filepath.Join(o.root, "LICENSE")); err != nil {
		return fmt.Errorf("read the licence: %w", err)
	}
	if s.revision, s.created, err = commit(o.root); err != nil {
		return err
	}
	dir := o.out
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(o.root, dir)
	}
	var binaries []binary
	for _, p := range o.platforms {
		b := binary{}
		var ok bool
		if b.os, b.arch, ok = strings.Cut(p, "/"); !ok {
			return fmt.Errorf("platform %q: use OS/ARCH, for example linux/arm64", p)
		}
		b.path = filepath.Join(dir, "binaries", b.os+"-"+b.arch, "dovetail")
		if err := compile(o.root, b, s.version, progress); err != nil {
			return err
		}
		binaries = append(binaries, b)
	}
	w, err := write(dir, s, binaries)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "image     %s\ndigest    %s\n", w.reference, w.digest)
	for _, p := range w.platforms {
		fmt.Fprintf(out, "          %-12s %s  %.1f MB compressed\n", p.name, p.digest, float64(p.bytes)/1e6)
	}
	sboms := make([]string, len(w.platforms))
	fromTop := func(path string) string {
		if rel, err := filepath.Rel(o.root, path); err == nil && filepath.IsLocal(rel) {
			return rel
		}
		return path
	}
	for i, p := range w.platforms {
		sboms[i] = fromTop(p.sbom)
	}
	ociLayout, tarball := fromTop(w.layout), fromTop(w.tarball)
	absolute := ociLayout
	if !filepath.IsAbs(absolute) {
		absolute = `"$PWD"/` + absolute // go -C goes elsewhere
	}
	fmt.Fprintf(out, "roots     %s\nlayout    %s\ntarball   %s\nsbom      %s\n", w.roots, ociLayout, tarball, strings.Join(sboms, "\n          "))
	fmt.Fprintf(out, `
load it   docker load -i %[2]s    (or podman load -i, or ctr -n k8s.io images import)
push it   go -C build/image tool crane push %[5]s %[3]s
          crane push %[1]s %[3]s
          skopeo copy --all oci:%[1]s:%[4]s docker://%[3]s
`, ociLayout, tarball, w.reference, s.version, absolute)
	return nil
}

// compile builds the binary of a platform. It depends on nothing but the source and the toolchain: no path, no clock, no build id.
func compile(root string, b binary, version string, progress io.Writer) error {
	path, err := filepath.Abs(b.path)
	if err != nil {
		return fmt.Errorf("build %s: %w", b.path, err)
	}
	cmd := exec.Command("bash", "build/progress.sh", "dovetail for "+b.os+"/"+b.arch, ".", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X github.com/dovetail-sh/dovetail/internal/cli.Version="+version, "-o", path, "./cmd/dovetail")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, progress, progress
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+b.os, "GOARCH="+b.arch, "GOFLAGS=")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build dovetail for %s/%s: %w", b.os, b.arch, err)
	}
	return nil
}

// commit is what the tree was taken from, empty outside a repository, and when: SOURCE_DATE_EPOCH, else that of the commit, else 1970.
func commit(root string) (revision string, at time.Time, err error) {
	at = time.Unix(0, 0).UTC()
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if revision = git("rev-parse", "HEAD"); revision != "" {
		if seconds == "" {
			seconds = git("log", "-1", "--format=%ct")
		}
		if git("status", "--porcelain") != "" {
			revision += "-dirty"
		}
	}
	if seconds != "" {
		n, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return "", at, fmt.Errorf("SOURCE_DATE_EPOCH %q: use seconds since 1970", seconds)
		}
		at = time.Unix(n, 0).UTC()
	}
	return revision, at, nil
}
