// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package web

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/access"
	"github.com/dovetail-sh/dovetail/internal/top"
)

//go:embed dist/index.html dist/app.js dist/app.css
var dist embed.FS

// mostManifests is how many bytes of manifests a plan is made for.
const mostManifests = 4 << 20

// maxSince is how far back a report of the past can look.
const maxSince = 7 * 24 * time.Hour

// policy allows the page's own assets and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// LoopbackHandler serves the page to the local machine only: it answers only requests whose Host is a loopback address.
func LoopbackHandler(source Source, samples *Samples) http.Handler {
	return sealed(access.LoopbackOnly(pages(source, samples)))
}

// Handler serves the page and its data. The caller is responsible for access control.
func Handler(source Source, samples *Samples) http.Handler { return sealed(pages(source, samples)) }

func pages(source Source, samples *Samples) http.Handler {
	mux := http.NewServeMux()
	for _, asset := range []struct{ path, file, kind string }{
		{"GET /{$}", "index.html", "text/html; charset=utf-8"},
		{"GET /app.js", "app.js", "text/javascript; charset=utf-8"},
		{"GET /app.css", "app.css", "text/css; charset=utf-8"},
	} {
		content, err := dist.ReadFile("dist/" + asset.file)
		if err != nil { // it is embedded
			panic(err)
		}
		mux.HandleFunc(asset.path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", asset.kind)
			_, _ = w.Write(content) // who asked is gone
		})
	}
	mux.HandleFunc("GET /api/overview", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "application/json", func(b io.Writer) error { return top.JSON(b, source.View(), top.NewLook()) })
	})
	mux.HandleFunc("GET /api/workloads", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "application/json", func(b io.Writer) error { return top.UsageJSON(b, source.Usages()) })
	})
	mux.HandleFunc("GET /api/pending", func(w http.ResponseWriter, r *http.Request) {
		answer(w, "application/json", func(b io.Writer) error { return source.Pending(r.Context(), b) })
	})
	mux.HandleFunc("GET /api/offer", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, "application/json", func(b io.Writer) error { return json.NewEncoder(b).Encode(source.Offer()) })
	})
	mux.HandleFunc("GET /api/samples", func(w http.ResponseWriter, r *http.Request) {
		after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
		if err != nil {
			http.Error(w, fmt.Sprintf("after=%q: want seconds since 1970", r.URL.Query().Get("after")), http.StatusBadRequest)
			return
		}
		answer(w, "application/json", func(b io.Writer) error { return json.NewEncoder(b).Encode(samples.After(after)) })
	})
	mux.HandleFunc("GET /api/details", func(w http.ResponseWriter, r *http.Request) {
		answer(w, plainText, func(b io.Writer) error { return source.Details(r.Context(), b, r.URL.Query().Get("subject")) })
	})
	kept := &reports{source: source, made: map[string]*made{}}
	mux.HandleFunc("GET /api/report/{name}", func(w http.ResponseWriter, r *http.Request) {
		since, after := r.URL.Query().Get("since"), r.URL.Query().Get("after")
		length, err := time.ParseDuration(cmp.Or(since, "1h"))
		if err != nil || length <= 0 || length > maxSince {
			http.Error(w, fmt.Sprintf("since=%q: want a duration of at most %s, such as 24h", since, maxSince), http.StatusBadRequest)
			return
		}
		at, err := strconv.ParseInt(cmp.Or(after, "0"), 10, 64)
		if err != nil {
			http.Error(w, fmt.Sprintf("after=%q: want milliseconds since 1970", after), http.StatusBadRequest)
			return
		}
		answer(w, "application/json", func(b io.Writer) error {
			return kept.write(r.Context(), b, r.PathValue("name"), length, time.UnixMilli(at))
		})
	})
	mux.HandleFunc("POST /api/plan", func(w http.ResponseWriter, r *http.Request) {
		answer(w, plainText, func(b io.Writer) error {
			return source.Plan(r.Context(), b, http.MaxBytesReader(w, r.Body, mostManifests))
		})
	})
	return mux
}

const plainText = "text/plain; charset=utf-8"

// answer sends what write writes, or its error: whole, so that an error in the midst is none of the content.
func answer(w http.ResponseWriter, kind string, write func(io.Writer) error) {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, fs.ErrNotExist) {
			status = http.StatusNotFound
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = b.WriteTo(w) // who asked is gone
}

// sealed has answers neither kept nor framed, and what the page loads come from here alone.
func sealed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
