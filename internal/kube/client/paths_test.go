// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestReadTellsWhy: the error of a read that the API server refuses has the words of the API server.
func TestReadTellsWhy(t *testing.T) {
	const why = `clusters "c" is forbidden: User "u" cannot get resource "clusters"`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"` + strings.ReplaceAll(why, `"`, `\"`) + `"}`))
	}))
	defer server.Close()
	c := &Client{Core: kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL}).CoreV1().RESTClient()}
	if _, err := c.Read(t.Context(), "/apis/x/v1/clusters/c", nil); !apierrors.IsForbidden(err) || err.Error() != why {
		t.Errorf("have %v, want a refusal that says: %s", err, why)
	}
}
