// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// classify wraps an error of the API server with the verb, the object and the error class for the caller.
func classify(err error, verb, kind, name string) error {
	if err == nil {
		return nil
	}
	var sort error
	switch {
	case deniedByAdmission(err):
		sort = plan.ErrInvalid
	case apierrors.IsNotFound(err):
		sort = plan.ErrGone
	case apierrors.IsConflict(err):
		sort = plan.ErrConflict
		if strings.Contains(err.Error(), "Precondition failed: UID") || strings.Contains(err.Error(), "UID in the precondition") {
			sort = plan.ErrGone
		}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err),
		apierrors.IsRequestEntityTooLargeError(err):
		sort = plan.ErrInvalid
	default:
		return fmt.Errorf("%s %s %q: %w", verb, kind, name, err)
	}
	return fmt.Errorf("%s %s %q: %w: %w", verb, kind, name, sort, err)
}

func gone(verb, kind, name, uid string) error {
	return fmt.Errorf("%s %s %q: %w: no object with uid %s", verb, kind, name, plan.ErrGone, uid)
}

// kind is how to reach the objects of one kind.
type kind[T metav1.Object] struct {
	name     string // for messages
	resource string
	client   rest.Interface
	have     *client.Objects[T]
	fresh    func() T
}

func (k kind[T]) get(ctx context.Context, name string) (T, error) {
	x := k.fresh()
	obj, err := k.client.Get().NamespaceIfScoped(translate.NamespaceOf(name), translate.NamespaceOf(name) != "").Resource(k.resource).Name(translate.NameOf(name)).Do(ctx).Get()
	if err != nil {
		return x, err
	}
	x, ok := obj.(T)
	if !ok {
		return x, fmt.Errorf("got a %T", obj)
	}
	return x, nil
}

func (k kind[T]) patch(ctx context.Context, name string, how types.PatchType, body any, subresource ...string) (T, error) {
	var none T
	data, err := json.Marshal(body)
	if err != nil {
		return none, fmt.Errorf("write patch: %w", err)
	}
	obj, err := k.client.Patch(how).NamespaceIfScoped(translate.NamespaceOf(name), translate.NamespaceOf(name) != "").Resource(k.resource).Name(translate.NameOf(name)).SubResource(subresource...).Body(data).Do(ctx).Get()
	if err != nil {
		return none, err
	}
	x, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("got a %T", obj)
	}
	client.KeepWritten(k.have, name, x)
	return x, nil
}

// patchStatus merges a status into that of an object of the cluster, as it was last seen. One that has changed or gone since is left: the
// watch tells of that, and whoever writes runs again.
func (k kind[T]) patchStatus(ctx context.Context, seen T, status map[string]any) error {
	body := map[string]any{"metadata": map[string]any{"uid": seen.GetUID(), "resourceVersion": seen.GetResourceVersion()}, "status": status}
	_, err := k.patch(ctx, seen.GetName(), types.MergePatchType, body, "status")
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return classify(err, "update status of", k.name, seen.GetName())
}

// edit runs a change on the object as last seen; when that turns out to be outdated, once more on the object as it is.
func (k kind[T]) edit(ctx context.Context, verb, name, uid string, change func(cur T) (T, error)) (uint64, error) {
	cur, ok := k.have.Get(name)
	for attempt := 0; ; attempt++ {
		if !ok {
			var err error
			if cur, err = k.get(ctx, name); err != nil {
				return 0, classify(err, verb, k.name, name)
			}
		}
		if uid != "" && string(cur.GetUID()) != uid {
			if ok {
				ok = false // the watch may be behind
				continue
			}
			return 0, gone(verb, k.name, name, uid)
		}
		next, err := change(cur)
		if err == nil {
			return translate.ResourceVersion(next.GetResourceVersion()), nil
		}
		outdated := (apierrors.IsConflict(err) || refusedPatch(err)) && !deniedByAdmission(err)
		if outdated && attempt == 0 {
			ok = false
			continue
		}
		if refusedPatch(err) {
			return 0, fmt.Errorf("%s %s %q: %w: %w", verb, k.name, name, plan.ErrConflict, err)
		}
		return 0, classify(err, verb, k.name, name)
	}
}

// deniedByAdmission reports whether an admission webhook or a ValidatingAdmissionPolicy has denied a request. A webhook chooses the status code and the details of
// its answer, and a policy the reason, so only the sentence that the API server puts before theirs tells: a denial with the code of a conflict is no conflict.
func deniedByAdmission(err error) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return false
	}
	said := s.Status().Message
	return strings.Contains(said, "admission webhook ") && strings.Contains(said, " denied the request") ||
		strings.Contains(said, "ValidatingAdmissionPolicy ") && strings.Contains(said, " denied request")
}

// refusedPatch reports whether a JSON patch could not be applied: a test in it failed, or a place in it is gone. The API server answers that with the code of an
// invalid object, but names no object.
func refusedPatch(err error) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) || deniedByAdmission(err) {
		return false
	}
	st := s.Status()
	return st.Code == http.StatusUnprocessableEntity && (st.Details == nil || st.Details.Name == "")
}
