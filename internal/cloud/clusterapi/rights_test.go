// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package clusterapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/clusterapi/clusterapitest"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// right is what a rule of a role grants.
type right struct{ verb, group, resource string }

func (r right) String() string { return r.verb + " " + r.resource + "." + r.group }

// granted returns the rights of the role that "dovetail manifests --cluster-api" prints.
func granted(t *testing.T) (out []right) {
	t.Helper()
	text, err := os.ReadFile("../../../charts/dovetail/optional/cluster-api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n---\n"))
	var role rbacv1.Role
	if err := yaml.UnmarshalStrict(first, &role); err != nil {
		t.Fatal(err)
	}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, right{verb, group, resource})
				}
			}
		}
	}
	return out
}

// guarded is a management cluster that forbids what a role does not grant. Changes are accepted and not made.
type guarded struct {
	*clusterapitest.Answers
	rights []right
	mu     sync.Mutex
	used   map[right]bool
}

func (g *guarded) check(verb, path string) error {
	parts := strings.Split(path, "/") // "", apis, GROUP, VERSION, namespaces, NAMESPACE, RESOURCE, NAME
	if len(parts) < 7 {
		return nil // discovery is everybody's
	}
	if verb == "get" && len(parts) == 7 {
		verb = "list"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.rights {
		if r.verb == verb && r.group == parts[2] && (r.resource == parts[6] || r.resource == "*") {
			g.used[r] = true
			return nil
		}
	}
	name := ""
	if len(parts) > 7 {
		name = parts[7]
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: parts[2], Resource: parts[6]}, name, fmt.Errorf("User %q cannot %s resource %q in API group %q", "dovetail", verb, parts[6], parts[2]))
}

func (g *guarded) Read(ctx context.Context, path string, query url.Values) ([]byte, error) {
	if err := g.check("get", path); err != nil {
		return nil, err
	}
	return g.Answers.Read(ctx, path, query)
}

func (g *guarded) Patch(_ context.Context, path string, _ []byte) error {
	return g.check("patch", path)
}

// use reads, raises and lowers groups of all kinds, and returns all that people are told: conditions of the class and errors.
func (g *guarded) use(t *testing.T) string {
	t.Helper()
	const at = clusterapitest.Core + "/v1beta2/namespaces/default/"
	template := `"template":{"spec":{"infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"KwokMachineTemplate","name":"group-00"}}}`
	record := []string{`"group-00":{"owned":{"kwok://group-00-0":{"uid":"group-00","name":"group-00","launched":1}}}`}
	for _, resource := range []string{"machinesets", "machinepools"} {
		name := strings.TrimSuffix(resource, "s")
		object := fmt.Sprintf(`{"metadata":{"name":%q,"uid":%q,"labels":{"cluster.x-k8s.io/cluster-name":"workload"},"annotations":{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size":"0",
			"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"9","capacity.cluster-autoscaler.kubernetes.io/labels":"node.kubernetes.io/instance-type=%[1]s"}},"spec":{"replicas":1,%[3]s}}`, name, name, template)
		g.Texts[at+resource], g.Texts[at+resource+"/"+name] = `{"items":[`+object+`]}`, object
		machine := fmt.Sprintf(`{"metadata":{"name":"%[1]s-0","uid":"%[1]s-0","labels":{"cluster.x-k8s.io/cluster-name":"workload"},"ownerReferences":[{"controller":true,"name":%[1]q,"uid":%[1]q}]},"spec":{"providerID":"kwok://%[1]s-0"}}`, name)
		g.Texts[at+"machines"] = strings.TrimSuffix(g.Texts[at+"machines"], "]}") + "," + machine + "]}"
		record = append(record, fmt.Sprintf(`%[1]q:{"owned":{"kwok://%[1]s-0":{"uid":%[1]q,"name":%[1]q,"launched":1}}}`, name))
	}
	infra := clusterapitest.Infra + "/v1/namespaces/default/kwokmachinetemplates/group-00"
	g.Texts[infra] = strings.Replace(g.Texts[infra], `"status":{`, `"status":{"infrastructureMachineKind":"KwokMachine",`, 1)
	kept := &cloudtest.Record{}
	if _, err := kept.Swap(t.Context(), "", `{"groups":{`+strings.Join(record, ",")+`}}`); err != nil {
		t.Fatal(err)
	}
	p := clusterapi.New(clusterapi.Config{Namespace: "default", Name: "workload"}, g, kept, state.New().Resources(), cloud.Wall{}, slog.New(slog.NewTextHandler(io.Discard, nil)))
	var told strings.Builder
	note := func(err error) {
		if err != nil {
			told.WriteString(err.Error() + "\n")
		}
	}
	_, err := p.Offerings(t.Context(), nil, groupClass())
	note(err)
	status, err := p.ClassStatus(t.Context(), groupClass())
	note(err)
	for _, c := range status.Conditions {
		if c.Status == "False" {
			told.WriteString(c.Message + "\n")
		}
	}
	_, err = p.List(t.Context())
	note(err)
	for _, group := range []string{"type-group-00", "machineset", "machinepool"} {
		note(p.Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "new-" + group, ClaimUID: "new-" + group, Class: groupClass(), Types: []string{group}}})[0].Err)
	}
	for _, err := range p.Terminate(t.Context(), []string{"kwok://group-00-0", "kwok://machineset-0", "kwok://machinepool-0"}) {
		note(err)
	}
	return told.String()
}

// TestEachRight: without any one of the rights of the role, people are told which is missing, of what, and what grants it. The role grants no more
// than is used, and with all of it nothing is wrong.
func TestEachRight(t *testing.T) {
	all := granted(t)
	world := func(rights []right) *guarded {
		a, _ := fleet(1, 1)
		return &guarded{Answers: a, rights: rights, used: map[right]bool{}}
	}
	whole := world(all)
	if told := whole.use(t); told != "" {
		t.Errorf("with all rights: %s", told)
	}
	for i, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			if !whole.used[r] {
				t.Error("the role grants this right, and it was not used")
			}
			told := world(slices.Concat(all[:i:i], all[i+1:])).use(t)
			resource := r.resource
			if resource == "*" {
				resource = "kwokmachinetemplates"
			}
			for _, want := range []string{fmt.Sprintf("cannot %s resource %q in API group %q", r.verb, resource, r.group), `grant the rights that "dovetail manifests --cluster-api" prints`} {
				if !strings.Contains(told, want) {
					t.Errorf("people are told %q, want %q in it", told, want)
				}
			}
		})
	}
}
