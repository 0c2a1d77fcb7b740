// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package takeover

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// interrupter is a connection that calls before once, immediately before request number at is sent.
type interrupter struct {
	next   http.RoundTripper
	mu     sync.Mutex
	at     int
	sent   int
	before func()
}

func (i *interrupter) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	now := i.sent == i.at
	i.sent++
	i.mu.Unlock()
	if now {
		i.before()
	}
	return i.next.RoundTrip(r)
}

// handover is one handover of a NodePool in a test, with everything that it reads and writes.
type handover struct {
	ctx   context.Context
	admin *client.Client
	t     *testing.T
	name  string // of the pool, its node and its NodeClaim; of a group: of its class, too
	way   handoverWay
	said  []string
}

// handoverWay is one of the four handovers.
type handoverWay struct {
	groups  bool // of node groups, by their NodeGroupClass
	release bool
}

func (w handoverWay) String() string {
	out := "takeover of a "
	if w.release {
		out = "release of a "
	}
	if w.groups {
		return out + "NodeGroupClass"
	}
	return out + "NodePool"
}

// class returns group and kind of the node class before the handover.
func (w handoverWay) class() (group, kind string) {
	switch {
	case w.groups:
		return dovetailv1alpha1.Group, dovetailv1alpha1.KindNodeGroupClass
	case w.release:
		return translate.TakenGroups["karpenter.kwok.sh"], "KWOKNodeClass"
	}
	return "karpenter.kwok.sh", "KWOKNodeClass"
}

// noGroups is an AWS without Auto Scaling groups.
type noGroups struct{}

func (noGroups) DescribeGroup(context.Context, string) (map[string]string, []string, bool, error) {
	return nil, nil, false, nil
}
func (noGroups) ForgetClaims(context.Context, []string) error { return nil }

// create creates an object from its JSON.
func (h *handover) create(c rest.Interface, resource, manifest string) {
	h.t.Helper()
	err := c.Post().Resource(resource).SetHeader("Content-Type", "application/json").Body([]byte(manifest)).Do(h.ctx).Error()
	if err != nil {
		h.t.Fatalf("create %s: %v", resource, err)
	}
}

// createPool creates a NodePool whose node class has the given group, and the pool's own name if it is one of node groups.
func (h *handover) createPool(name, group string) {
	h.t.Helper()
	class, kind := "default", "KWOKNodeClass"
	if h.way.groups {
		class, kind = name, dovetailv1alpha1.KindNodeGroupClass
	}
	h.create(h.admin.Karpenter, "nodepools", fmt.Sprintf(`{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": %q}, "spec": {"template": {"spec": {
		"nodeClassRef": {"group": %q, "kind": %q, "name": %q}, "requirements": []}}}}`, name, group, kind, class))
}

// begin creates the pool, a NodeClaim of it that is Initialized, its node, and another pool.
func (h *handover) begin() {
	h.t.Helper()
	group, kind := h.way.class()
	class := "default"
	if h.way.groups {
		class = h.name
		h.create(h.admin.Dovetail, "nodegroupclasses", fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": %q}, "spec": {"selectorTerms": [{"name": "a-group"}]}}`,
			dovetailv1alpha1.GroupVersion.String(), kind, class))
	}
	h.create(h.admin.Core, "namespaces", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q}}`, h.name))
	h.createPool(h.name, group)
	h.createPool(h.name+"-other", group)
	h.create(h.admin.Core, "nodes", fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}}`, h.name))
	h.create(h.admin.Karpenter, "nodeclaims", fmt.Sprintf(`{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": %[1]q, "labels": {"karpenter.sh/nodepool": %[1]q},
		"finalizers": ["karpenter.sh/termination"]}, "spec": {"nodeClassRef": {"group": %[2]q, "kind": %[3]q, "name": %[4]q}, "requirements": [], "resources": {}}}`, h.name, group, kind, class))
	status := fmt.Sprintf(`{"status": {"providerID": "x://%[1]s", "nodeName": %[1]q,
		"conditions": [{"type": "Initialized", "status": "True", "reason": "Initialized", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`, h.name)
	err := h.admin.Karpenter.Patch(types.MergePatchType).Resource("nodeclaims").Name(h.name).SubResource("status").Body([]byte(status)).Do(h.ctx).Error()
	if err != nil {
		h.t.Fatal(err)
	}
}

// run hands the pool over through a client that calls before in front of request number at. It returns how many
// requests were sent.
func (h *handover) run(at int, before func()) (requests int, err error) {
	h.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(kubetest.Sandbox(h.t), "kubeconfig"))
	if err != nil {
		h.t.Fatal(err)
	}
	config.QPS = -1
	i := &interrupter{at: -1, before: before}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { i.next = next; return i })
	cluster, err := client.New(h.ctx, config, client.ReadWrite)
	if err != nil {
		h.t.Fatal(err)
	}
	i.mu.Lock()
	i.sent, i.at = 0, at // asking for the server's version was none of the handover's
	i.mu.Unlock()
	pace := pauseTimes{look: time.Millisecond, still: 2 * time.Millisecond, hold: time.Millisecond, lists: time.Millisecond}
	t := &NodePools{Client: cluster, Namespace: h.name, Wait: 2 * time.Second, Say: func(s string) { h.said = append(h.said, s) }, pauses: pace}
	groups := &NodeGroups{NodePools: t, Cloud: noGroups{}}
	switch h.way {
	case handoverWay{}:
		err = t.TakeOver(h.ctx, h.name)
	case handoverWay{release: true}:
		err = t.Release(h.ctx, h.name)
	case handoverWay{groups: true}:
		err = groups.TakeOver(h.ctx, h.name)
	default:
		err = groups.Release(h.ctx, h.name)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.sent, err
}

// remove deletes an object as an administrator would by force: its finalizers are taken off first.
func (h *handover) remove(c rest.Interface, namespace, resource, name string) {
	r := c.Patch(types.MergePatchType).Resource(resource).Name(name).Body([]byte(`{"metadata":{"finalizers":null}}`))
	d := c.Delete().Resource(resource).Name(name)
	if namespace != "" {
		r, d = r.Namespace(namespace), d.Namespace(namespace)
	}
	for _, err := range []error{r.Do(h.ctx).Error(), d.Do(h.ctx).Error()} {
		if err != nil && !apierrors.IsNotFound(err) {
			h.t.Errorf("delete %s %s: %v", resource, name, err)
		}
	}
}

// exists reports whether a cluster-wide object of Karpenter's exists.
func (h *handover) exists(resource, name string) bool {
	err := h.admin.Karpenter.Get().Resource(resource).Name(name).Do(h.ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		h.t.Fatal(err)
	}
	return err == nil
}

// Each object that a handover reads or writes may be deleted by somebody before any of its requests. The handover then
// either succeeds or says what was deleted; it never ends with the API server's "not found", never creates a NodePool
// that somebody deleted, and the same command finishes what is left. The soak tries every request, each run some.
func TestDeletionsDuringHandover(t *testing.T) {
	t.Parallel()
	dir := kubetest.Sandbox(t)
	ctx, cancel := context.WithTimeout(t.Context(), testwait.Left(t, 30*time.Minute))
	defer cancel()
	admin, err := client.Connect(ctx, filepath.Join(dir, "kubeconfig"), 0, 0, "dovetail-test", client.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	objects := []struct {
		what   string
		delete func(h *handover)
	}{
		{"its NodePool", func(h *handover) { h.remove(h.admin.Karpenter, "", "nodepools", h.name) }},
		{"another NodePool", func(h *handover) { h.remove(h.admin.Karpenter, "", "nodepools", h.name+"-other") }},
		{"its NodeClaim", func(h *handover) { h.remove(h.admin.Karpenter, "", "nodeclaims", h.name) }},
		{"its Node", func(h *handover) { h.remove(h.admin.Core, "", "nodes", h.name) }},
		{"the ConfigMap", func(h *handover) { h.remove(h.admin.Core, h.name, "configmaps", configMap) }},
		{"its NodeGroupClass", func(h *handover) { h.remove(h.admin.Dovetail, "", "nodegroupclasses", h.name) }},
		{"its NodePool, created anew", func(h *handover) {
			var was karpv1.NodePool
			if h.admin.Karpenter.Get().Resource("nodepools").Name(h.name).Do(h.ctx).Into(&was) != nil {
				return
			}
			h.remove(h.admin.Karpenter, "", "nodepools", h.name)
			h.createPool(h.name, was.Spec.Template.Spec.NodeClassRef.Group)
		}},
	}
	stride := 8
	if os.Getenv("DOVETAIL_SOAK") != "" {
		stride = 1
	}
	for w, way := range []handoverWay{{}, {release: true}, {groups: true}, {groups: true, release: true}} {
		for o, object := range objects {
			tried, requests := 0, 0
			for at := o % 5; ; at += stride {
				h := &handover{ctx: ctx, admin: admin, t: t, way: way, name: fmt.Sprintf("gone-%d-%d-%d", w, o, at)}
				h.begin()
				deleted := false
				var err error
				requests, err = h.run(at, func() { deleted = true; object.delete(h) })
				where := fmt.Sprintf("%s, %s deleted before request %d of %d", way, object.what, at, requests)
				h.check(where, deleted && o == 0, err)
				h.cleanUp()
				if t.Failed() {
					t.FailNow()
				}
				if !deleted {
					break // it had been finished before
				}
				tried++
			}
			if tried == 0 {
				t.Errorf("%s: %s was never deleted before its end", way, object.what)
			}
			t.Logf("%s: %s was deleted before each of %d requests of %d", way, object.what, tried, requests)
		}
	}
}

// check fails the test if a handover ended in a way that people are not told about, or can't be finished.
func (h *handover) check(where string, poolDeleted bool, err error) {
	h.t.Helper()
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		h.t.Errorf("%s: it ends with the API server's own words: %v\nsaid: %q", where, err, h.said)
	}
	var vanished *VanishedError
	if errors.As(err, &vanished) && poolDeleted && h.exists("nodepools", h.name) {
		h.t.Errorf("%s: the NodePool was created again", where)
	}
	// The same command again finishes it, whatever it says of a NodePool that does not exist.
	if _, err := h.run(-1, nil); errors.As(err, &status) {
		h.t.Errorf("%s: once more, it ends with the API server's own words: %v", where, err)
	} else if err != nil && h.exists("nodepools", h.name) {
		if _, err := h.run(-1, nil); err != nil && !strings.Contains(err.Error(), "not found. List existing ones: ") {
			h.t.Errorf("%s: twice more, it ends with %v\nsaid: %q", where, err, h.said)
		}
	}
	var left corev1.ConfigMap
	if err := h.admin.Core.Get().Namespace(h.name).Resource("configmaps").Name(configMap).Do(h.ctx).Into(&left); err == nil && len(left.Data) > 0 {
		h.t.Errorf("%s: ConfigMap %s still has %v", where, configMap, left.Data)
	}
	if !h.exists("nodepools", h.name) {
		return
	}
	var pool karpv1.NodePool
	if err := h.admin.Karpenter.Get().Resource("nodepools").Name(h.name).Do(h.ctx).Into(&pool); err != nil {
		h.t.Fatal(err)
	}
	if h.way.groups {
		if h.admin.Dovetail.Get().Resource("nodegroupclasses").Name(h.name).Do(h.ctx).Error() == nil && pool.Annotations[translate.AnnotationRelease] != "" {
			h.t.Errorf("%s: the NodePool is still being given back: %v", where, pool.Annotations)
		}
		return
	}
	if _, taken := translate.ClassGroup(pool.Spec.Template.Spec.NodeClassRef.Group); taken == h.way.release {
		h.t.Errorf("%s: the NodePool's node class group is %s", where, pool.Spec.Template.Spec.NodeClassRef.Group)
	}
	if pool.Spec.Limits != nil || len(pool.Spec.Disruption.Budgets) == 1 && pool.Spec.Disruption.Budgets[0].Nodes == "0" {
		h.t.Errorf("%s: the NodePool is still kept from launching: %+v", where, pool.Spec)
	}
}

func (h *handover) cleanUp() {
	for _, name := range []string{h.name, h.name + "-other"} {
		h.remove(h.admin.Karpenter, "", "nodepools", name)
	}
	h.remove(h.admin.Karpenter, "", "nodeclaims", h.name)
	h.remove(h.admin.Core, "", "nodes", h.name)
	h.remove(h.admin.Dovetail, "", "nodegroupclasses", h.name)
	err := h.admin.Core.Delete().Resource("namespaces").Name(h.name).Body(&metav1.DeleteOptions{}).Do(h.ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		h.t.Error(err)
	}
}
