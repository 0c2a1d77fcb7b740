// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	notes := release("install", chart, "--set", "settings.clusterName=demo", "--timeout", "2m", "--wait")
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
		"patch deployments.apps -n default":                                "no",
	} {
		out, err := run("", append(append([]string{"kubectl", "auth", "can-i"}, strings.Fields(question)...), us...)...)
		if have := strings.Fields(fmt.Sprint(out, err)); !strings.Contains(" "+strings.Join(have, " ")+" ", " "+want+" ") {
			t.Errorf("can the controller %s: %v, want %s", question, have, want)
		}
	}
	release("upgrade", chart, "--set", "settings.clusterName=demo,surge=true,replicas=1", "--timeout", "2m", "--wait")
	if out := kubectl(append([]string{"auth", "can-i", "patch", "deployments.apps", "-n", "default"}, us...)...); strings.TrimSpace(out) != "yes" {
		t.Errorf("with surge, can the controller patch deployments: %s", out)
	}
	release("uninstall", "--timeout", "2m", "--wait")
	deadline := time.Now().Add(time.Minute)
	for kubectl("get", "deployments,services,poddisruptionbudgets,serviceaccounts,clusterroles,clusterrolebindings,roles,rolebindings,validatingadmissionpolicies", "-A", "-l", "app.kubernetes.io/name=dovetail", "-o", "name") != "" {
		if time.Now().After(deadline) {
			t.Fatal("uninstalled, and still there: ", kubectl("get", "all,clusterroles,validatingadmissionpolicies", "-A", "-l", "app.kubernetes.io/name=dovetail", "-o", "name"))
		}
	}
	if out := kubectl("get", "crd", "nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws", "-o", "name"); strings.Count(out, "\n") != 3 {
		t.Errorf("of the kinds, left are %s", out)
	}
}
