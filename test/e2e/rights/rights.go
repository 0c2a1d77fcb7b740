// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package rights compares what the chart's roles allow the controller with what it has asked a real API server for, by that
// server's own audit log.
package rights

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Right is one verb on one resource (with its subresource, as in roles), of one name where a rule says so.
type Right struct{ Verb, Group, Resource, Name string }

// String is such as "patch nodeclaims/status.karpenter.sh".
func (r Right) String() string {
	out := r.Verb + " " + r.Resource
	if r.Group != "" {
		out += "." + r.Group
	}
	if r.Name != "" {
		out += " " + r.Name
	}
	return out
}

// Granted reads the rights of the Roles and ClusterRoles in files of manifests; a rule of several names gives a right on each.
// A pattern (see filepath.Glob) that matches no file is an error.
func Granted(patterns ...string) (map[Right]bool, error) {
	out := map[Right]bool{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("there is no file %s", pattern)
		}
		for _, file := range files {
			if err := addGranted(out, file); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return out, nil
}

func addGranted(out map[Right]bool, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := d.Decode(&role); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if role.Kind != "ClusterRole" && role.Kind != "Role" {
			continue
		}
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range names {
							out[Right{verb, group, resource, name}] = true
						}
					}
				}
			}
		}
	}
}

// Audit is what audit logs tell of the controller's requests.
type Audit struct {
	Used      map[Right]bool // what it asked for and its roles allowed, with the object's name
	Forbidden map[Right]bool // what its roles did not allow
}

// NewAudit returns an Audit of nothing.
func NewAudit() *Audit { return &Audit{Used: map[Right]bool{}, Forbidden: map[Right]bool{}} }

// event is what is read of an audit.k8s.io/v1 Event.
type event struct {
	Verb      string `json:"verb"`
	UserAgent string `json:"userAgent"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		APIGroup    string `json:"apiGroup"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

// Add takes in the audit log of a sandbox, an event a line. Requests of other programs than Dovetail, such as of a test with its
// identity, are left out, and so is a last line that was cut off. A log that does not exist holds nothing.
func (a *Audit) Add(file string) error {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	allowed, forbidden := map[Right]bool{}, map[Right]bool{}
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			maps.Copy(a.Used, allowed)
			for r := range forbidden {
				if !allowed[r] { // else it was forbidden by an API server that had not read the roles yet
					a.Forbidden[r] = true
				}
			}
			return nil
		}
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if e.ObjectRef == nil || !strings.HasPrefix(e.UserAgent, "dovetail") {
			continue
		}
		r := Right{e.Verb, e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Name}
		if e.ObjectRef.Subresource != "" {
			r.Resource += "/" + e.ObjectRef.Subresource
		}
		switch e.Annotations["authorization.k8s.io/decision"] { // empty: the API server ended before it had decided
		case "allow":
			allowed[r] = true
		case "forbid":
			forbidden[r] = true
		}
	}
}

// Unused lists the rights granted that were not used, sorted.
func Unused(granted, used map[Right]bool) (out []Right) {
	covered := func(g Right) bool {
		for u := range used {
			resource := u.Resource == g.Resource || g.Resource == "*" || g.Resource == "*/scale" && strings.HasSuffix(u.Resource, "/scale")
			if u.Verb == g.Verb && resource && (g.Group == "*" || u.Group == g.Group) && (g.Name == "" || u.Name == g.Name) {
				return true
			}
		}
		return false
	}
	for g := range granted {
		if !covered(g) {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b Right) int { return strings.Compare(a.String(), b.String()) })
	return out
}
