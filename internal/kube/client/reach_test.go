// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestForwardPortFallsBackToSPDY lets an API server, or a proxy before it, refuse web sockets: the port is then requested over SPDY.
func TestForwardPortFallsBackToSPDY(t *testing.T) {
	upgrades := make(chan string, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upgrades <- r.Header.Get("Upgrade")
		http.Error(w, "no upgrades here", http.StatusBadRequest)
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	c := &Client{config: config, Core: kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", "controller"
	if _, err := c.forwardPort(t.Context(), pod, securePort, make(chan struct{})); err == nil {
		t.Error("forwarded a port through a server that upgrades no connection")
	}
	close(upgrades)
	var got []string
	for u := range upgrades {
		got = append(got, u)
	}
	if want := []string{"websocket", "SPDY/3.1"}; !slices.Equal(got, want) {
		t.Errorf("requested upgrades to %q, want %q", got, want)
	}
}
