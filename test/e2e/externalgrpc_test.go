// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/externalgrpctest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// TestExternalGRPC: a controller with --cloud externalgrpc has the cheapest group of a server grow from zero for pending pods, also after it was
// killed while machines are on their way, and gives every machine back when the pods are gone. No machine comes that no claim has.
func TestExternalGRPC(t *testing.T) {
	t.Parallel()
	verifyOnly(t)
	s := own(t, "--no-autoscaler")
	e := newEnv(t, s, "external")
	server := &externalgrpctest.Server{}
	nodes := &serverNodes{env: e, names: map[string]string{}}
	server.Made, server.Ended = nodes.create, nodes.remove
	cheap := server.AddGroup("small", "z1", model.OnDemand, 4, 0.1, testLabel, e.name)
	dear := server.AddGroup("other", "z1", model.OnDemand, 4, 0.3, testLabel, e.name)
	config := filepath.Join(t.TempDir(), "server.yaml")
	e.must(os.WriteFile(config, []byte("address: "+server.Start(t)+"\n"), 0o600))

	e.must(s.Create(e.ctx, groupClasses, `{apiVersion: dovetail.sh/v1alpha1, kind: NodeGroupClass, metadata: {name: groups}, spec: {selectorTerms: [{name: "*"}]}}`))
	e.nodePool(map[string]any{
		"spec.template.spec.nodeClassRef": map[string]any{"group": "dovetail.sh", "kind": "NodeGroupClass", "name": "groups"},
		"spec.template.spec.requirements": []any{in(model.LabelCapacityType, model.OnDemand)},
		"spec.disruption":                 map[string]any{"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1s", "budgets": []any{map[string]any{"nodes": "100%"}}},
	})
	stop := e.externalController(config)
	e.deploy("first", 3, e.pod("3", "1Gi"))
	e.podsRun(3)

	server.Set(func(s *externalgrpctest.Server) { s.Hold = true })
	e.deploy("second", 4, e.pod("3", "1Gi"))
	e.until("the group is to have seven machines", func() error {
		if target, _ := server.Size(cheap); target != 7 {
			return fmt.Errorf("it is to have %d", target)
		}
		return nil
	})
	stop(syscall.SIGKILL)
	server.Set(func(s *externalgrpctest.Server) { s.Hold = false })
	stop = e.externalController(config)
	defer func() { stop(syscall.SIGTERM) }()
	e.podsRun(7)
	if n := len(server.EverMade()); n != 7 {
		t.Errorf("%d machines were made for 7 pods that need one each: %v", n, server.Calls())
	}
	if target, _ := server.Size(dear); target != 0 {
		t.Errorf("the dearer group has %d machines", target)
	}
	e.scale("first", 0)
	e.scale("second", 0)
	e.until("every machine is given back", func() error {
		if target, machines := server.Size(cheap); target+machines > 0 {
			return fmt.Errorf("the group is to have %d machines and has %d", target, machines)
		}
		return nil
	})
	if n := len(server.EverMade()); n != 7 {
		t.Errorf("%d machines were made, want 7", n)
	}
	stop(syscall.SIGTERM)
	if slices.Contains(server.Calls(), "Cleanup") {
		t.Error("the server was told to clean up, which it can be once: the next controller uses it, too")
	}
}

// externalController runs a controller with --cloud externalgrpc until it is stopped by a signal.
func (e *env) externalController(config string) (stop func(syscall.Signal)) {
	e.t.Helper()
	return e.controllerOf("--cloud", "externalgrpc", "--cloud-config", config)
}

// controllerOf runs a controller of its own, with the rights that the chart gives it and some flags, until it is stopped by a signal. If it ends by itself, as
// when it begins while the API server is away, it is started again, as a Deployment does.
func (e *env) controllerOf(flags ...string) (stop func(syscall.Signal)) {
	e.t.Helper()
	_, bin, err := sandbox.Binaries()
	e.must(err)
	var log lockedBuffer
	start := func() (*exec.Cmd, error) {
		cmd := exec.Command(bin, append([]string{"controller", "--kubeconfig", e.s.Kubeconfig(sandbox.Controller), "--leader-elect=false", "--metrics-address", "", "--health-address", "", "--secure-address", ""}, flags...)...)
		cmd.Stdout, cmd.Stderr = &log, &log
		return cmd, cmd.Start()
	}
	cmd, err := start()
	e.must(err)
	var mu sync.Mutex // of cmd and stopped
	stopped, over := false, make(chan struct{})
	go func() {
		defer close(over)
		for {
			_ = cmd.Wait() // only this goroutine changes cmd
			_ = cloud.Wall{}.Wait(context.Background(), 200*time.Millisecond)
			mu.Lock()
			if stopped {
				mu.Unlock()
				return
			}
			next, err := start()
			if err != nil {
				mu.Unlock()
				e.t.Errorf("start the controller again: %v", err)
				return
			}
			cmd = next
			mu.Unlock()
		}
	}()
	var once sync.Once
	stop = func(by syscall.Signal) {
		once.Do(func() {
			mu.Lock()
			stopped = true
			_ = cmd.Process.Signal(by)
			mu.Unlock()
			<-over
		})
	}
	e.t.Cleanup(func() {
		stop(syscall.SIGTERM)
		if e.t.Failed() {
			e.t.Logf("the controller:\n%s", log.String())
		}
	})
	return stop
}

// lockedBuffer is a buffer that several processes may write to.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// serverNodes makes and deletes the Nodes of a server's machines. kwok plays their kubelets.
type serverNodes struct {
	*env
	mu    sync.Mutex
	names map[string]string // by provider id
}

func (n *serverNodes) create(id string, template *corev1.Node) {
	node := template.DeepCopy()
	node.Name = "external-" + strings.ReplaceAll(strings.TrimPrefix(id, "test://"), "/", "-")
	node.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
	node.Labels["kwok.x-k8s.io/node"] = "fake"
	node.Spec = corev1.NodeSpec{ProviderID: id, Taints: []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}}
	n.mu.Lock()
	n.names[id] = node.Name
	n.mu.Unlock()
	status := node.Status
	go func() {
		made, err := n.s.Kube.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{})
		if err == nil {
			made.Status.Capacity, made.Status.Allocatable = status.Capacity, status.Allocatable
			_, err = n.s.Kube.CoreV1().Nodes().UpdateStatus(context.Background(), made, metav1.UpdateOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !errors.Is(err, context.Canceled) {
			n.t.Errorf("make node %s: %v", node.Name, err)
		}
	}()
}

func (n *serverNodes) remove(id string) {
	n.mu.Lock()
	name := n.names[id]
	n.mu.Unlock()
	go func() {
		if err := n.s.Kube.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			n.t.Errorf("delete node %s: %v", name, err)
		}
	}()
}
