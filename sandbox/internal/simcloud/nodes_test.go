// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simcloud

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
)

// TestNodes makes and deletes Nodes on a real API server, with the rights that
// the sandbox gives the simulated cloud.
func TestNodes(t *testing.T) {
	bin := os.Getenv("DOVETAIL_SANDBOX_BIN")
	if bin == "" {
		bin = filepath.Join("..", "..", "..", "bin", "dovetail-sandbox")
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := plane.Resolve(filepath.Join(t.TempDir(), "sandbox"))
	if err != nil {
		t.Fatal(err)
	}
	sandbox := func(stdin string, args ...string) {
		t.Helper()
		c := exec.Command(bin, append([]string{"--dir", string(dir)}, args...)...)
		c.Stdin = strings.NewReader(stdin)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	t.Cleanup(func() { sandbox("", "down") })
	sandbox("", "up", "--no-manifests")
	sandbox(plane.RBAC(), "kubectl", "apply", "-f", "-")
	m, err := connect(t.Context(), slog.New(slog.DiscardHandler), dir.Kubeconfig(plane.Machines))
	if err != nil {
		t.Fatal(err)
	}
	spec := machines.NodeSpec{
		Name: "made", ProviderID: "x://1", Labels: map[string]string{"kubernetes.io/os": "linux"}, Annotations: map[string]string{"a": "b"},
		Taints:   []machines.Taint{{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}},
		Capacity: map[string]string{"cpu": "2", "pods": "10"}, Allocatable: map[string]string{"cpu": "1900m", "pods": "10"},
	}
	for range 2 { // A repeated call succeeds.
		if err := m.CreateNode(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	n, err := m.client.CoreV1().Nodes().Get(t.Context(), "made", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n.Status.Allocatable.Cpu().MilliValue() != 1900 || n.Status.Capacity.Pods().Value() != 10 || n.Spec.ProviderID != "x://1" || n.Labels["beta.kubernetes.io/os"] != "linux" {
		t.Fatalf("the node is %+v", n)
	}
	other := spec
	other.ProviderID = "x://2"
	if err := m.CreateNode(t.Context(), other); err == nil || !strings.Contains(err.Error(), `"made"`) {
		t.Fatalf("another machine took the name: %v", err)
	}
	if err := m.DeleteNode(t.Context(), "made", "x://2"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.client.CoreV1().Nodes().Get(t.Context(), "made", metav1.GetOptions{}); err != nil {
		t.Fatalf("another machine's node was deleted: %v", err)
	}
	hold := []byte(`{"metadata":{"finalizers":["test.dovetail.sh/hold"]}}`)
	if _, err := m.client.CoreV1().Nodes().Patch(t.Context(), "made", types.MergePatchType, hold, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.DeleteNode(t.Context(), "made", "x://1"); err != nil {
			t.Fatal(err)
		}
	}
	n, err = m.client.CoreV1().Nodes().Get(t.Context(), "made", metav1.GetOptions{})
	if err != nil || n.DeletionTimestamp == nil || n.Annotations["sandbox.dovetail.sh/kubelet"] != "stopped" {
		t.Fatalf("a node that a finalizer holds is %+v, %v; want it deleted and without heartbeats", n, err)
	}
	sandbox("", "kubectl", "patch", "node", "made", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if _, err := m.client.CoreV1().Nodes().Get(t.Context(), "made", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the node still exists: %v", err)
	}
}
