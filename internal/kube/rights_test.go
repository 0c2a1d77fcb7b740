// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A right is one verb on one resource, of one name where the rule says so.
type right struct{ verb, group, resource, name string }

func (r right) String() string {
	out := r.verb + " " + r.resource
	if r.group != "" {
		out += "." + r.group
	}
	if r.name != "" {
		out += " " + r.name
	}
	return out
}

// witness records what the controller's identity asked the real API server for, and was allowed, while the tests of
// this package ran. Every request of the controller is made by this package, so this is what its roles are for.
var witness = struct {
	sync.Mutex
	used map[right]bool
}{used: map[right]bool{}}

// witnessed passes requests on and has them recorded.
type witnessed struct{ http.RoundTripper }

func (w witnessed) RoundTrip(r *http.Request) (*http.Response, error) {
	asked, ok := rightOf(r)
	res, err := w.RoundTripper.RoundTrip(r)
	if !ok || err != nil {
		return res, err
	}
	forbidden := false
	if res.StatusCode == http.StatusForbidden {
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			return nil, err
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
		forbidden = bytes.Contains(body, []byte(" cannot ")) // by the roles; a policy or a quota says otherwise
	}
	witness.Lock()
	defer witness.Unlock()
	if !forbidden { // a right that is missing fails the test that needs it
		witness.used[asked] = true
	}
	return res, nil
}

// rightOf is the right that a request takes; false: it asks for no resource.
func rightOf(r *http.Request) (out right, ok bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		out.group, parts = parts[1], parts[3:]
	default:
		return out, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	out.resource = parts[0]
	if len(parts) > 1 {
		out.name = parts[1]
	}
	if len(parts) > 2 {
		out.resource += "/" + parts[2]
	}
	q := r.URL.Query()
	if name, ok := strings.CutPrefix(q.Get("fieldSelector"), "metadata.name="); ok && out.name == "" {
		out.name = name
	}
	switch r.Method {
	case http.MethodPost:
		out.verb = "create"
	case http.MethodPut:
		out.verb = "update"
	case http.MethodPatch:
		out.verb = "patch"
	case http.MethodDelete:
		out.verb = "delete"
	default:
		out.verb = "get"
		if q.Get("watch") != "" {
			out.verb = "watch"
		} else if len(parts) == 1 {
			out.verb = "list"
		}
	}
	return out, true
}

// grantedRights are the rights in manifests of the chart, those of a resource on each name that a rule has.
func grantedRights(patterns ...string) (map[right]bool, error) {
	out := map[right]bool{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return nil, fmt.Errorf("no files %s: %w", pattern, err)
		}
		for _, file := range files {
			if err := addGranted(out, file); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return out, nil
}

func addGranted(out map[right]bool, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := d.Decode(&role); err == io.EOF {
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
							out[right{verb, group, resource, name}] = true
						}
					}
				}
			}
		}
	}
}

// elsewhere are rights that no request of these tests takes, each with what shows that it is needed.
var elsewhere = map[right]string{}

// unusedRights lists the rights granted that nothing used, sorted.
func unusedRights(granted, used map[right]bool) (out []string) {
	covered := func(g right) bool {
		for u := range used {
			resource := u.resource == g.resource || g.resource == "*/scale" && strings.HasSuffix(u.resource, "/scale")
			if u.verb == g.verb && resource && (g.group == "*" || u.group == g.group) && (g.name == "" || u.name == g.name) {
				return true
			}
		}
		return elsewhere[g] != ""
	}
	for g := range granted {
		if !covered(g) {
			out = append(out, g.String())
		}
	}
	slices.Sort(out)
	return out
}

// checkRights says what is wrong with the roles of the chart, once all tests of this package have run: a right that
// nothing used. It returns nothing where only some tests ran.
func checkRights() (wrong []string) {
	if testing.Short() || sandbox.dir == "" || flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	granted, err := grantedRights("../../charts/dovetail/rights/*.yaml", "../../charts/dovetail/optional/*.yaml")
	if err != nil {
		return []string{err.Error()}
	}
	witness.Lock()
	defer witness.Unlock()
	for _, r := range unusedRights(granted, witness.used) {
		wrong = append(wrong, "the chart's roles allow to "+r+", and no test of internal/kube does: remove the right, or add the test")
	}
	for r, why := range elsewhere {
		if !granted[r] {
			wrong = append(wrong, "elsewhere lists "+r.String()+", which no role grants ("+why+")")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// TestWitnessOfRights: the witness tells a right that nothing uses, and knows the right that a request takes.
func TestWitnessOfRights(t *testing.T) {
	granted := map[right]bool{{"list", "", "pods", ""}: true, {"get", "*", "*/scale", ""}: true, {"update", "", "configmaps", "a"}: true, {"update", "", "configmaps", "b"}: true}
	used := map[right]bool{}
	for _, x := range []struct{ method, url, want string }{
		{"GET", "/api/v1/pods?limit=5", "list pods"},
		{"GET", "/api/v1/pods?watch=true", "watch pods"},
		{"GET", "/api/v1/namespaces", "list namespaces"},
		{"GET", "/api/v1/namespaces/n", "get namespaces n"},
		{"PUT", "/api/v1/namespaces/n/configmaps/a", "update configmaps a"},
		{"POST", "/api/v1/namespaces/n/pods/p/eviction", "create pods/eviction p"},
		{"GET", "/apis/apps/v1/namespaces/n/deployments/d/scale", "get deployments/scale.apps d"},
		{"PATCH", "/apis/karpenter.sh/v1/nodeclaims/c/status", "patch nodeclaims/status.karpenter.sh c"},
		{"GET", "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dl", "list leases.coordination.k8s.io l"},
		{"GET", "/version", ""},
	} {
		r, err := http.NewRequest(x.method, "http://h"+x.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		have, ok := rightOf(r)
		if ok != (x.want != "") || ok && have.String() != x.want {
			t.Errorf("%s %s takes %q, want %q", x.method, x.url, have, x.want)
		}
		used[have] = true
	}
	if unused := unusedRights(granted, used); !slices.Equal(unused, []string{"update configmaps b"}) {
		t.Errorf("unused are %q", unused)
	}
	delete(used, right{"list", "", "pods", ""})
	if unused := unusedRights(granted, used); !slices.Equal(unused, []string{"list pods", "update configmaps b"}) {
		t.Errorf("unused are %q", unused)
	}
}

// TestShadowRights: what the controller may read in shadow mode it may read when it acts.
func TestShadowRights(t *testing.T) {
	shadow, err := grantedRights("../../charts/dovetail/shadow/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	acting, err := grantedRights("../../charts/dovetail/rights/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(shadow) < 40 {
		t.Errorf("%d rights in shadow mode: not all were read", len(shadow))
	}
	maps.DeleteFunc(shadow, func(r right, _ bool) bool { return acting[r] })
	for r := range shadow {
		t.Errorf("in shadow mode it may %s, and not when it acts", r)
	}
}
