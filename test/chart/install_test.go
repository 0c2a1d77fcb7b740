// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const sandbox = "../../bin/dovetail-sandbox"

// TestInstalled has Helm install the chart on a real API server, in a namespace that takes restricted pods alone, change the
// installation and remove it. The pods are kwok's: they run, and do nothing.
func TestInstalled(t *testing.T) {
	if testing.Short() {
		t.Skip("needs the sandbox; -short was given")
	}
	tmp, err := os.MkdirTemp("", "dovetail-chart-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	dir := filepath.Join(tmp, "sb")
	run := func(stdin string, args ...string) (string, error) {
		cmd := exec.Command(sandbox, append([]string{"--dir", dir}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("dovetail-sandbox %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return string(out), nil
	}
	kubectl := func(args ...string) string {
		t.Helper()
		return must(t)(run("", append([]string{"kubectl"}, args...)...))
	}
	must(t)(run("", "up", "--no-autoscaler", "--no-manifests", "--pull", "0"))
	t.Cleanup(func() {
		if _, err := run("", "down"); err != nil {
			t.Error(err)
		}
	})
	must(t)(run(`
apiVersion: v1
kind: Namespace
metadata:
  name: autoscaling
  labels: {pod-security.kubernetes.io/enforce: restricted}
`, "kubectl", "apply", "-f", "-"))
	for _, zone := range []string{"a", "b"} {
		must(t)(run(fmt.Sprintf(`
apiVersion: v1
kind: Node
metadata:
  name: node-%[1]s
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {kubernetes.io/hostname: node-%[1]s, kubernetes.io/os: linux, topology.kubernetes.io/zone: zone-%[1]s}
status:
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
`, zone), "kubectl", "apply", "-f", "-"))
	}
	release := func(verb string, args ...string) string {
		t.Helper()
		return must(t)(helm(t, append([]string{verb, "dovetail", "--kubeconfig", filepath.Join(dir, "kubeconfig"), "-n", "autoscaling"}, args...)...))
	}
	notes := release("install", chart, "--set", "settings.clusterName=demo", "--timeout", "10m", "--wait")
	if !strings.Contains(notes, "STATUS: deployed") {
		t.Errorf("installed, and Helm says\n%s", notes)
	}
	if have := kubectl("get", "deployment", "-n", "autoscaling", "dovetail", "-o", "jsonpath={.status.availableReplicas}"); have != "2" {
		t.Errorf("%s replicas are available, want 2", have)
	}
	nodes := strings.Fields(kubectl("get", "pods", "-n", "autoscaling", "-o", "jsonpath={.items[*].spec.nodeName}"))
	if len(nodes) != 2 || nodes[0] == nodes[1] {
		t.Errorf("the replicas are on nodes %v, want two of them", nodes)
	}
	us := []string{"--as", "system:serviceaccount:autoscaling:dovetail"}
	for question, want := range map[string]string{
		"create nodeclaims.karpenter.sh":     "yes",
		"list persistentvolumes":             "yes",
		"list leases.coordination.k8s.io -A": "no", // but for those named
		"create nodes":                       "no",
		"update leases.coordination.k8s.io/dovetail-leader -n autoscaling": "yes",
		"update leases.coordination.k8s.io/dovetail-leader -n default":     "no",
		"get secrets -n autoscaling":                                       "no",
		"create bindings -n default":                                       "no", // the older way to bind, which names no pod in its path
		"patch deployments.apps -n default":                                "no",
	} {
		out, err := run("", append(append([]string{"kubectl", "auth", "can-i"}, strings.Fields(question)...), us...)...)
		if have := strings.Fields(fmt.Sprint(out, err)); !strings.Contains(" "+strings.Join(have, " ")+" ", " "+want+" ") {
			t.Errorf("can the controller %s: %v, want %s", question, have, want)
		}
	}
	bindings(t, run)
	release("upgrade", chart, "--set", "settings.clusterName=demo,surge=true,replicas=1", "--timeout", "10m", "--wait")
	if out := kubectl(append([]string{"auth", "can-i", "patch", "deployments.apps", "-n", "default"}, us...)...); strings.TrimSpace(out) != "yes" {
		t.Errorf("with surge, can the controller patch deployments: %s", out)
	}
	for _, mode := range []struct{ landing, bind, tolerate string }{{"tolerate", "no", "yes"}, {"off", "no", "no"}, {"bind", "yes", "yes"}} {
		release("upgrade", chart, "--set", "settings.clusterName=demo,replicas=1,landing="+mode.landing, "--timeout", "10m", "--wait")
		for question, want := range map[string]string{
			"create pods --subresource=binding -n default":  mode.bind,
			"patch pods -n default":                         mode.tolerate,
			"create pods --subresource=eviction -n default": "yes",
			"patch nodes": "yes",
		} {
			out, err := run("", append(append([]string{"kubectl", "auth", "can-i"}, strings.Fields(question)...), us...)...)
			if have := strings.Fields(fmt.Sprint(out, err)); !slices.Contains(have, want) {
				t.Errorf("with landing %s, can the controller %s: %v, want %s", mode.landing, question, have, want)
			}
		}
	}
	release("uninstall", "--timeout", "10m", "--wait")
	deadline := time.Now().Add(5 * time.Minute)
	for kubectl("get", "deployments,services,poddisruptionbudgets,serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings,validatingadmissionpolicies", "-A", "-l", "app.kubernetes.io/name=dovetail", "-o", "name") != "" {
		if time.Now().After(deadline) {
			t.Fatal("uninstalled, and still there: ", kubectl("get", "all,clusterroles,validatingadmissionpolicies", "-A", "-l", "app.kubernetes.io/name=dovetail", "-o", "name"))
		}
	}
	if out := kubectl("get", "crd", "nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws", "-o", "name"); strings.Count(out, "\n") != 3 {
		t.Errorf("of the kinds, left are %s", out)
	}
}

// bindings has the controller's identity bind a pod. The policy refuses a Binding that could reach another pod than the one that was checked,
// or change it, and lets a proper one through, also with the labels that the API server itself adds to it.
func bindings(t *testing.T, run func(stdin string, args ...string) (string, error)) {
	t.Helper()
	must(t)(run(`
apiVersion: v1
kind: Pod
metadata: {name: waiting, namespace: default, labels: {app: waiting}}
spec:
  schedulerName: nobody
  automountServiceAccountToken: false
  containers: [{name: c, image: registry.k8s.io/pause}]
`, "kubectl", "create", "-f", "-"))
	pod := func(path string) string {
		t.Helper()
		return must(t)(run("", "kubectl", "get", "pod", "-n", "default", "waiting", "-o", "jsonpath={"+path+"}"))
	}
	bind := func(meta, target string) error {
		_, err := run(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"waiting"`+meta+`},"target":{`+target+`}}`,
			"kubectl", "create", "--as", "system:serviceaccount:autoscaling:dovetail", "--raw", "/api/v1/namespaces/default/pods/waiting/binding", "-f", "-")
		return err
	}
	uid, node := fmt.Sprintf(`,"uid":%q`, pod(".metadata.uid")), `"kind":"Node","name":"node-a"`
	// The API server takes a moment to see a new policy. Until then the uid of another pod keeps this one from being bound.
	for deadline := time.Now().Add(5 * time.Minute); ; {
		err := bind(`,"uid":"another","annotations":{"x":"y"}`, node)
		if err != nil && strings.Contains(err.Error(), "dovetail-bindings") {
			break
		}
		if err == nil || time.Now().After(deadline) {
			t.Fatalf("the policy is not in force: %v", err)
		}
	}
	for what, x := range map[string]struct{ meta, target, says string }{
		"without the pod's uid": {"", node, "dovetail must set the UID of the pod"},
		"with an empty uid":     {`,"uid":""`, node, "dovetail must set the UID of the pod"},
		"with a label":          {uid + `,"labels":{"app":"other"}`, node, "may not set labels or annotations"},
		"with an annotation":    {uid + `,"annotations":{"x":"y"}`, node, "may not set labels or annotations"},
		"to another kind":       {uid, `"kind":"Pod","name":"node-a"`, "target.kind"},   // the API server's own check comes first
		"to nothing":            {uid, `"kind":"Node"`, "target.name"},                  // the same
		"of another pod":        {`,"uid":"another"`, node, "Precondition failed: UID"}, // a pod of this name was made anew
	} {
		if err := bind(x.meta, x.target); err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("a Binding %s: %v, want a refusal that says %q", what, err, x.says)
		}
	}
	if have := pod(".spec.nodeName"); have != "" {
		t.Fatalf("the pod is bound to %s", have)
	}
	if err := bind(uid, node); err != nil {
		t.Errorf("a proper Binding: %v", err)
	}
	if have := pod(".spec.nodeName"); have != "node-a" {
		t.Errorf("bound, and the pod's node is %q", have)
	}
	// The API server added the zone to the Binding, before the policy saw it.
	if have := pod(`.metadata.labels.topology\.kubernetes\.io/zone`); have != "zone-a" {
		t.Errorf("the pod's label of the zone is %q, want that of its node", have)
	}
}
