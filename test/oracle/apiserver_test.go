// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package oracle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// kubeconfigVariable names a kubeconfig that may install definitions. The test harness sets it to its sandbox's.
const kubeconfigVariable = "DOVETAIL_KUBECONFIG"

// patience is how long an API server may take to serve a definition. It only bounds how long a failure takes.
const patience = 2 * time.Minute

// A real API server gives our definitions and Karpenter's the verdicts of testdata, which TestVerdicts got without one.
//
// Both are installed side by side under groups that are made up for the run, so that the definitions and objects that the server
// already has are left alone. No rule in them speaks of its own group.
func TestVerdictsOfAPIServer(t *testing.T) {
	path := os.Getenv(kubeconfigVariable)
	if path == "" {
		if testing.Short() {
			t.Skipf("%s is not set", kubeconfigVariable)
		}
		t.Fatalf("%s is not set: run `make verify`, which starts a sandbox, or set it to the kubeconfig of a cluster to try on, or say -short", kubeconfigVariable)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	// That an unknown field is dropped is what some cases are about.
	config.WarningHandler = rest.NoWarnings{}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	names := map[string]string{}
	for _, k := range kinds(t) {
		// What the schema is like is what tells the two definitions of a kind apart.
		names[text(t, k.ourCRD(t))] = "ours-" + run
		install(t, client, k.ourCRD(t), names[text(t, k.ourCRD(t))])
		if k.theirs != nil {
			names[text(t, k.theirCRD(t))] = "theirs-" + run
			install(t, client, k.theirCRD(t), names[text(t, k.theirCRD(t))])
		}
	}
	newServer := func(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) server {
		return newAPIServer(t, client, crd, names[text(t, crd)])
	}
	for _, k := range kinds(t) {
		t.Run(k.name, func(t *testing.T) { runCases(t, k, newServer, false) })
	}
}

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

func group(crd *apiextensionsv1.CustomResourceDefinition, name string) string {
	return name + "." + crd.Spec.Group
}

func install(t *testing.T, client dynamic.Interface, crd *apiextensionsv1.CustomResourceDefinition, name string) {
	t.Helper()
	crd = crd.DeepCopy()
	crd.Spec.Group = group(crd, name)
	crd.Name = crd.Spec.Names.Plural + "." + crd.Spec.Group
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(definitions).Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("install %s: %v", crd.Name, err)
	}
	t.Cleanup(func() {
		// The test's own context is over by now.
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Scale(patience))
		defer cancel()
		if err := client.Resource(definitions).Delete(ctx, crd.Name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete %s: %v", crd.Name, err)
		}
	})
}

// apiServer judges by writing to a real API server.
type apiServer struct {
	objects    dynamic.ResourceInterface
	apiVersion string
	count      int
}

func newAPIServer(t *testing.T, client dynamic.Interface, crd *apiextensionsv1.CustomResourceDefinition, name string) *apiServer {
	t.Helper()
	version := schema.GroupVersion{Group: group(crd, name), Version: crd.Spec.Versions[0].Name}
	var objects dynamic.ResourceInterface = client.Resource(version.WithResource(crd.Spec.Names.Plural))
	if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		objects = client.Resource(version.WithResource(crd.Spec.Names.Plural)).Namespace(metav1.NamespaceDefault)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, testwait.Left(t, patience), true, func(ctx context.Context) (bool, error) {
		_, err := objects.List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		t.Fatalf("wait until %s is served: %v", version, err)
	}
	return &apiServer{objects: objects, apiVersion: version.String()}
}

func (s *apiServer) create(t *testing.T, object map[string]any) verdict {
	s.count++
	u := s.named(object, fmt.Sprintf("case-%d", s.count), "")
	answer, err := s.objects.Create(t.Context(), u, metav1.CreateOptions{})
	return s.verdict(t, answer, err)
}

func (s *apiServer) update(t *testing.T, old, object map[string]any) verdict {
	u := s.successor(old, object)
	answer, err := s.objects.Update(t.Context(), u, metav1.UpdateOptions{})
	return s.verdict(t, answer, err)
}

func (s *apiServer) updateStatus(t *testing.T, old, object map[string]any) verdict {
	u := s.successor(old, object)
	answer, err := s.objects.UpdateStatus(t.Context(), u, metav1.UpdateOptions{})
	return s.verdict(t, answer, err)
}

func (s *apiServer) named(object map[string]any, name, resourceVersion string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	u.SetAPIVersion(s.apiVersion)
	u.SetName(name)
	u.SetResourceVersion(resourceVersion)
	// A finalizer would keep the object, and with it the definition, when the test is over.
	u.SetFinalizers(nil)
	return u
}

func (s *apiServer) successor(old, object map[string]any) *unstructured.Unstructured {
	before := &unstructured.Unstructured{Object: old}
	return s.named(object, before.GetName(), before.GetResourceVersion())
}

func (s *apiServer) verdict(t *testing.T, answer *unstructured.Unstructured, err error) verdict {
	t.Helper()
	if err == nil {
		// What was answered is what was written; what is read has been through the store.
		stored, err := s.objects.Get(t.Context(), answer.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return verdict{stored: stored.Object}
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.ErrStatus.Details == nil {
		t.Fatalf("the API server failed: %v", err)
	}
	var v verdict
	for _, cause := range status.ErrStatus.Details.Causes {
		v.messages = append(v.messages, cause.Message)
		// The check of the scale subresource names spec.replicas a second time, with a dot in front.
		if field := strings.TrimPrefix(cause.Field, "."); field != "" && field != "<nil>" {
			v.fields = append(v.fields, field)
		}
	}
	slices.Sort(v.fields)
	v.fields = slices.Compact(v.fields)
	return v
}
