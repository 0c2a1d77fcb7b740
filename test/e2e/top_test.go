// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// runTop runs dovetail top without a terminal and returns what it wrote, and how it ended.
func runTop(t *testing.T, args ...string) (out, errs string, status int) {
	t.Helper()
	_, bin, err := sandbox.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Scale(limit))
	defer cancel()
	var o, e strings.Builder
	cmd := exec.CommandContext(ctx, bin, append([]string{"top"}, args...)...)
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		x := (*exec.ExitError)(nil)
		if !errors.As(err, &x) {
			t.Fatal(err)
		}
		status = x.ExitCode()
	}
	return o.String(), e.String(), status
}

// What `dovetail top` shows of a cluster is what is in it: once as text, once as JSON, and live on a terminal that has keys.
func TestTop(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "seen-by-top") // a filter that no other row of the shared sandbox has in it
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge")})
	e.deploy("web", 2, e.pod("2", "2Gi"))
	e.podsRun(2)
	e.deploy("giant", 1, e.pod("900", "2Gi"))
	e.podsRefused(1)
	claim := e.claimsAre(2, "Ready", ready)[0]
	node := claim.Status.NodeName
	kubeconfig := s.Kubeconfig(sandbox.Admin)

	e.until("the text has it all", func() error {
		out, errs, status := runTop(t, "--once", "--kubeconfig", kubeconfig)
		for _, want := range []string{"autoscaler: Dovetail", "Pools\n", " " + e.name + " ", " " + node + " ", " m5.xlarge ", "Pending pods\n", "Insufficient cpu",
			"NodePool " + e.name + ": ", "Last decisions, from Dovetail's ledger", "Prices are from the catalog built-in EC2 us-east-1", "metrics-server is not installed"} {
			if !strings.Contains(out, want) {
				return errors.New("no " + want + " in\n" + out)
			}
		}
		if status != 0 || errs != "" {
			return errors.New("it says " + errs)
		}
		return nil
	})

	out, _, status := runTop(t, "-o", "json", "--kubeconfig", kubeconfig, "--filter", e.name, "--sort", "-cpu")
	var view struct {
		Autoscalers []struct{ Name string }
		Nodes       []struct {
			Name, NodeClaim, Pool, InstanceType, State string
			PricePerHour                               float64
			Pods                                       int
		}
		Pending  []struct{ Pods []string }
		Problems []string
	}
	if err := json.Unmarshal([]byte(out), &view); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, out)
	}
	found := false
	for _, n := range view.Nodes {
		if n.Pool != "nodepool/"+e.name {
			t.Errorf("node %s of %s passes the filter %q", n.Name, n.Pool, e.name)
		}
		if n.Name == node {
			found = true
			if n.NodeClaim != claim.Name || n.InstanceType != "m5.xlarge" || n.State != "Ready" || n.PricePerHour <= 0 || n.Pods < 1 {
				t.Errorf("node %s: %+v", node, n)
			}
		}
	}
	if !found || len(view.Pending) != 1 || len(view.Pending[0].Pods) != 1 || len(view.Problems) > 0 || len(view.Autoscalers) != 1 {
		t.Errorf("node found: %v; %+v", found, view)
	}

	x := onTerminal(t, 160, 40, nil, "top", "--kubeconfig", kubeconfig)
	x.shows("Pools", "Nodes", "Pending pods", "Decisions", e.name, "autoscaler: Dovetail", "$")
	if !regexp.MustCompile(`\x1b\[[0-9;]*3[0-9]m`).MatchString(x.written()) {
		t.Error("no colour was written")
	}
	x.press("/" + node)
	x.shows("Filter: " + node)
	x.press("\r")
	x.shows("1 with “"+node+"”", "> "+node)
	x.press("\r")
	x.shows("node/"+node, "NodeClaim", claim.Name, "Initialized True", "Why, by Dovetail")
	x.press("\x1b") // Esc
	x.shows("1 with “" + node + "”")
	x.press("\x1b")
	x.shows("Tab 1-4 table")
	x.press("3")
	x.press("?")
	x.shows("Figures", "Prices are from the catalog")
	x.press("?")
	x.resize(40, 24)
	x.shows("· q")
	x.fits(40)
	x.press("q")
	x.ends(0)
	if !strings.HasSuffix(strings.TrimRight(x.written(), "\r\n"), "l") && !strings.Contains(x.written(), "\x1b[?1049l") {
		t.Error("the terminal is left on its other screen")
	}
}

// A terminal of 40 columns, no colours, an interrupt: nothing of it breaks the screen.
func TestTopNarrow(t *testing.T) {
	s := shared(t)
	t.Parallel()
	x := onTerminal(t, 40, 24, []string{"NO_COLOR=1"}, "top", "--kubeconfig", s.Kubeconfig(sandbox.Admin))
	x.shows("1 Pools", "2 Nodes", "· q")
	x.fits(40)
	if regexp.MustCompile(`\x1b\[[0-9;]*[34][0-9]m`).MatchString(x.written()) {
		t.Errorf("NO_COLOR is set, and colours were written: %q", x.written())
	}
	x.press("\x03") // Ctrl-C
	x.ends(0)
}

// Who may list nodes and nothing else is shown nodes, and is told what is missing; who may not even do that is told why there is nothing.
func TestTopWithoutRights(t *testing.T) {
	s := shared(t)
	t.Parallel()
	as := func(user string) string {
		config, err := clientcmd.LoadFromFile(s.Kubeconfig(sandbox.Admin))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range config.AuthInfos {
			a.Impersonate = user
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := clientcmd.WriteToFile(*config, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	out, errs, status := runTop(t, "--once", "--kubeconfig", as("nobody"))
	if status != 1 || out != "" || !strings.Contains(errs, "list nodes of API server") || !strings.Contains(errs, "forbidden") {
		t.Errorf("status %d, %s%s", status, out, errs)
	}

	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "e2e-top-nodes"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "somebody"}}}
	if _, err := s.Kube.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	path := as("somebody")
	wanted := []string{"pods: not allowed: permission to list and watch pods", "nodeclaims: not allowed", "leases: not allowed"}
	err := waitFor(t.Context(), func(context.Context) error { // the API server takes a moment to heed a binding
		out, errs, status := runTop(t, "--once", "--kubeconfig", path)
		for _, want := range wanted {
			if status != 0 || !strings.Contains(out, want) {
				return errors.New("no " + want + " in " + out + errs)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	x := onTerminal(t, 120, 30, nil, "top", "--kubeconfig", path)
	x.shows("2 Nodes", "more problems")
	x.press("?")
	x.shows(wanted...)
	x.press("q")
	x.ends(0)
}

// An API server that goes away in the middle: what was there stays on the screen, and since when is said.
func TestTopWithoutServer(t *testing.T) {
	verifyOnly(t)
	t.Parallel()
	s := own(t, "--no-autoscaler")
	x := onTerminal(t, 100, 30, nil, "top", "--kubeconfig", s.Kubeconfig(sandbox.Admin))
	x.shows("no autoscaler seen", "nodes")
	if err := s.Down(); err != nil {
		t.Fatal(err)
	}
	x.shows("API server: no answer since", "the data shown is from then")
	x.press("q")
	x.ends(0)

	_, errs, status := runTop(t, "--once", "--kubeconfig", s.Kubeconfig(sandbox.Admin))
	if status != 1 || !strings.Contains(errs, "dovetail: ") {
		t.Errorf("status %d, %s", status, errs)
	}
}
