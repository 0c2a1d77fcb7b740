// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/access"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/controller/answer"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/top"
	"github.com/dovetail-sh/dovetail/internal/web"
)

// viewers is an API server that knows one token.
type viewers struct{}

func (viewers) ReviewToken(_ context.Context, token string) (access.User, bool, error) {
	return access.User{Name: "viewer"}, token == "right", nil
}

func (viewers) ReviewAccess(_ context.Context, _ access.User, verb, _ string) (bool, error) {
	return verb == "get", nil
}

// What is explained is open on a loopback address alone; elsewhere metrics are all that is to be had without a token.
func TestWhoMayLook(t *testing.T) {
	ctl := &controller.Controller{Ledger: ledger.New(10), State: state.New()}
	ctl.Answers = answer.New(ctl, ctl.Ledger)
	ctl.Ledger.Add(ledger.Entry{At: time.Now(), Kind: "create", Subject: "nodeclaim/secret"})
	standby := &controller.Controller{Ledger: ledger.New(10), State: state.New()}
	standby.Answers = answer.New(standby, standby.Ledger)
	page := &controllerPage{ctl: ctl, samples: &web.Samples{}, board: top.NewBoard(top.Cluster{Name: "secret"}, top.Prices{}), at: time.Now().Add(time.Hour)}
	page.view = page.board.View(time.Now())
	open, closed := metricsHandler(ctl, prometheus.NewRegistry(), false, true), metricsHandler(ctl, prometheus.NewRegistry(), false, false)
	secure := secureHandler(ctl, page, access.NewGate(viewers{}, "dovetail-system", time.Now))
	for _, c := range []struct {
		name    string
		h       http.Handler
		path    string
		token   string
		status  int
		content string
	}{
		{"loopback", open, "/metrics", "", 200, ""},
		{"loopback", open, "/ledger", "", 200, "nodeclaim/secret"},
		{"loopback", open, "/history/1h", "", 200, `"entries"`},
		{"standby", metricsHandler(standby, prometheus.NewRegistry(), false, true), "/history/1h", "", 503, "this replica is a standby and has no history; ask the leader"},
		{"loopback", open, "/savings/x", "", 400, "need a duration"},
		{"everywhere", closed, "/metrics", "", 200, ""},
		{"everywhere", closed, "/ledger", "", 403, "--secure-address"},
		{"everywhere", closed, "/ledger", "right", 403, "--secure-address"},
		{"everywhere", closed, "/history/1h", "", 403, ""},
		{"everywhere", closed, "/pending", "", 403, ""},
		{"everywhere", closed, "/shadow", "", 403, ""},
		{"everywhere", closed, "/why/node/a", "", 403, ""},
		{"everywhere", closed, "/ui/", "", 404, ""},
		{"secure", secure, "/ledger", "", 401, "a bearer token is required"},
		{"secure", secure, "/ledger", "wrong", 401, "the token is invalid"},
		{"secure", secure, "/ledger", "right", 200, "nodeclaim/secret"},
		{"secure", secure, "/history/1h", "right", 200, `"entries"`},
		{"everywhere", closed, "/savings/1h", "", 403, ""},
		{"secure", secure, "/savings/-1h", "right", 400, "need a duration"},
		{"secure", secure, "/why/node/a", "", 401, ""},
		{"secure", secure, "/pending", "", 401, ""},
		{"secure", secure, "/ui", "", 401, ""},
		{"secure", secure, "/ui", "right", 301, "/ui/"},
		{"secure", secure, "/ui/", "", 401, ""},
		{"secure", secure, "/ui/", "right", 200, "<title>Dovetail</title>"},
		{"secure", secure, "/ui/app.js", "", 401, ""},
		{"secure", secure, "/ui/app.js", "right", 200, "api/overview"},
		{"secure", secure, "/ui/api/overview", "", 401, ""},
		{"secure", secure, "/ui/api/overview", "right", 200, `"name": "secret"`},
		{"secure", secure, "/ui/api/offer", "right", 200, `{"by":"the controller","reports":["history","savings","headroom"],"plan":false}`},
		{"secure", secure, "/ui/api/report/history", "right", 200, ""},
		{"secure", secure, "/ui/api/report/doctor", "right", 404, "dovetail doctor"},
		{"secure", secure, "/metrics", "right", 404, ""},
		{"secure", secure, "/nothing", "", 401, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1"+c.path, nil)
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.content) {
			t.Errorf("%s %s with token %q: %d %.200q, want %d with %q", c.name, c.path, c.token, w.Code, w.Body, c.status, c.content)
		}
		if c.status != 200 && strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s %s with token %q is refused and answered", c.name, c.path, c.token)
		}
		if strings.HasPrefix(c.path, "/ui/") && c.status == 200 && !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'; script-src 'self'") {
			t.Errorf("%s has policy %q", c.path, w.Header().Get("Content-Security-Policy"))
		}
	}
	// A page of another site has no part in it, even where the browser would send the cookie.
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1/ledger", nil)
	r.Header.Set("Authorization", "Bearer right")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	secure.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("from another site: %d, want 403", w.Code)
	}
}
