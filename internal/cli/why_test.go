// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/report"
)

// Whoever answers in a controller's stead is told from a controller that knows of no such object.
func TestWhyAnswers(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{http.StatusNotFound, "subject \"node/n\": the cluster has no such node\n", "subject \"node/n\": the cluster has no such node"},
		{http.StatusBadGateway, "", "(--server) is not a controller, or failed: 502 Bad Gateway"},
		{http.StatusForbidden, "not here", "(--server) is not a controller, or failed: 403 Forbidden not here"},
		{http.StatusNotFound, "", "(--server) is not a controller, or failed: 404 Not Found"},
		{http.StatusOK, "<html>", "response from the controller at "},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/why/node/n" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.WriteHeader(c.status)
			if _, err := w.Write([]byte(c.body)); err != nil {
				t.Error(err)
			}
		}))
		var answer report.Why
		err := askController(t.Context(), server.URL, "why", "why/node/n", &answer)
		if server.Close(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %q: error %v, want %q", c.status, c.body, err, c.want)
		}
	}
}
