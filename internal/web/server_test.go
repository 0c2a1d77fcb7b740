// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/top"
)

// source answers with what it was asked.
type source struct{ board *top.Board }

func (s source) View() *top.View { return s.board.View(time.Unix(1_000, 0)) }

func (s source) Details(_ context.Context, w io.Writer, subject string) error {
	if subject != "node/a" {
		return fmt.Errorf("%s: %w", subject, fs.ErrNotExist)
	}
	_, err := io.WriteString(w, "it is Ready")
	return err
}

func (s source) Report(_ context.Context, w io.Writer, name string, since time.Duration) error {
	_, err := fmt.Fprintf(w, `{"name": %q, "since": %q}`, name, since)
	return err
}

func (s source) Plan(_ context.Context, w io.Writer, manifests io.Reader) error {
	_, err := io.Copy(w, manifests)
	return err
}

func (s source) Usages() []top.Usage {
	return []top.Usage{{Node: "a", Namespace: "shop", Owner: "deployment/web", Pods: 2, Requests: top.Amounts{CPU: 500, Memory: 1 << 30}}}
}

func (s source) Pending(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, `{"causes":[]}`)
	return err
}

func (s source) Offer() Offer { return Offer{By: "a test", Reports: []string{"doctor"}, Plan: true} }

func newHandler() (http.Handler, *Samples) {
	board := top.NewBoard(top.Cluster{Name: "test"}, top.Prices{})
	board.SetNode(&top.Node{Name: "a", Ready: "True"})
	samples := &Samples{}
	return LoopbackHandler(source{board}, samples), samples
}

func TestHandler(t *testing.T) {
	handler, samples := newHandler()
	samples.Add(source{top.NewBoard(top.Cluster{}, top.Prices{})}.View())
	for _, c := range []struct {
		method, url, body, site string
		status                  int
		want                    string
	}{
		{"GET", "http://127.0.0.1:1/", "", "", 200, "<title>Dovetail</title>"},
		{"GET", "http://localhost/app.js", "", "same-origin", 200, "api/overview"},
		{"GET", "http://[::1]:80/app.css", "", "none", 200, "prefers-color-scheme"},
		{"GET", "http://127.0.0.1/api/overview", "", "", 200, `"name": "a"`},
		{"GET", "http://127.0.0.1/api/samples?after=0", "", "", 200, `[{"at":1000,"dollarsPerHour":0,"nodes":0,"podsPending":0}]`},
		{"GET", "http://127.0.0.1/api/samples?after=1000", "", "", 200, "[]"},
		{"GET", "http://127.0.0.1/api/samples?after=now", "", "", 400, `after="now": want seconds since 1970`},
		{"GET", "http://127.0.0.1/api/offer", "", "", 200, `{"by":"a test","reports":["doctor"],"plan":true}`},
		{"GET", "http://127.0.0.1/api/details?subject=node/a", "", "", 200, "it is Ready"},
		{"GET", "http://127.0.0.1/api/details?subject=node/b", "", "", 404, "node/b"},
		{"GET", "http://127.0.0.1/api/report/doctor", "", "", 200, `"renewed":false,"report":{"name":"doctor","since":"1h0m0s"}}`},
		{"GET", "http://127.0.0.1/api/report/history?since=24h", "", "", 200, `"since":"24h0m0s"`},
		{"GET", "http://127.0.0.1/api/report/history?since=8760h", "", "", 400, `since="8760h": want a duration of at most 168h0m0s, such as 24h`},
		{"GET", "http://127.0.0.1/api/report/history?after=now", "", "", 400, `after="now": want milliseconds since 1970`},
		{"POST", "http://127.0.0.1/api/plan", "kind: Pod", "", 200, "kind: Pod"},
		{"POST", "http://127.0.0.1/api/plan", strings.Repeat("#", mostManifests+1), "", 500, "too large"},
		{"GET", "http://127.0.0.1/api/plan", "", "", 405, ""},
		{"GET", "http://127.0.0.1/nothing", "", "", 404, ""},
		// A page elsewhere whose name was made to resolve to 127.0.0.1, and one that sends a request here.
		{"GET", "http://evil.example/api/overview", "", "", 403, "loopback addresses only"},
		{"POST", "http://127.0.0.1/api/plan", "", "cross-site", 403, "cross-site requests are not allowed"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.url, strings.NewReader(c.body))
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %.200q, want %d with %q", c.method, c.url, w.Code, w.Body, c.status, c.want)
		}
		if got := w.Header().Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s %s: Content-Security-Policy %q", c.method, c.url, got)
		}
	}
}

func TestSamplesAreBounded(t *testing.T) {
	s := &Samples{}
	for i := range mostSamples + 10 {
		s.Add(&top.View{At: time.Unix(int64(i), 0)})
	}
	if kept := s.After(-1); len(kept) != mostSamples || kept[0].At != 10 {
		t.Errorf("%d samples are kept, the first of %d; want %d, the first of 10", len(kept), kept[0].At, mostSamples)
	}
}

// TestPageIsBuilt: dist/ is what `make gen` makes of page/ as it is now.
func TestPageIsBuilt(t *testing.T) {
	sums, err := os.ReadFile("dist/SOURCES")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(sums)), "\n")
	if len(lines) != 7 {
		t.Fatalf("dist/SOURCES has %d lines, want 7", len(lines))
	}
	for _, line := range lines {
		digest, name, _ := strings.Cut(line, "  ")
		text, err := os.ReadFile(filepath.Join("page", name))
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%x", sha256.Sum256(text)) != digest {
			t.Errorf("page/%s has changed since dist/ was built: run `make gen`", name)
		}
	}
}

// TestPageIsSmall: what a browser loads is at most 200 kB, compressed.
func TestPageIsSmall(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, name := range []string{"index.html", "app.js", "app.css"} {
		text, err := dist.ReadFile("dist/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := z.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if b.Len() == 0 || b.Len() > 200_000 {
		t.Errorf("the page has %d bytes, compressed; at most 200,000 are wanted", b.Len())
	}
}

// The page says times in UTC, as every command does: a time of the browser's own zone can't be found in a log.
func TestPageSaysUTC(t *testing.T) {
	scripts, err := filepath.Glob("page/*.js")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, script := range scripts {
		source, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, local := range []string{"toLocaleTimeString", "toLocaleString", "getHours"} {
			if strings.Contains(string(source), local) {
				t.Errorf("%s uses %s, which depends on the reader's time zone", script, local)
			}
		}
	}
}
