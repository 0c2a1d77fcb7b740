// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"

	"github.com/dovetail-sh/dovetail/internal/access"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/web"
)

// serveController serves metrics, explanations, the page and health on the addresses of the flags, in goroutines that end
// with the context. It returns when the addresses are bound; an error of a server goes to failed.
func (p *controllerProcess) serveController(ctx context.Context, registry *prometheus.Registry) error {
	f := p.flags
	if f.metrics != "" {
		if err := p.serve(ctx, "--metrics-address", f.metrics, metricsHandler(p.ctl, registry, f.profiling, access.IsLoopback(f.metrics)), nil); err != nil {
			return err
		}
	}
	if f.health != "" {
		if err := p.serve(ctx, "--health-address", f.health, healthHandler(p.ctl), nil); err != nil {
			return err
		}
	}
	if f.secure.address == "" {
		return nil
	}
	certificates, err := f.secure.certificates(f.lease.Namespace, p.settings.log)
	if err != nil {
		return err
	}
	page := newControllerPage(p.ctl, p.client)
	go page.sample(ctx)
	gate := access.NewGate(client.NewReviews(p.client), f.lease.Namespace, time.Now)
	return p.serve(ctx, "--secure-address", f.secure.address, secureHandler(p.ctl, page, gate), certificates)
}

// serve serves a handler on an address, over TLS where there are certificates.
func (p *controllerProcess) serve(ctx context.Context, flag, address string, h http.Handler, certificates *access.Certificates) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s (%s): %w", address, flag, err)
	}
	server := newServer(h, mostConnections)
	server.Protocols = new(http.Protocols) // one connection of HTTP/2 would carry hundreds of requests at once
	server.Protocols.SetHTTP1(true)
	server.ErrorLog = slog.NewLogLogger(p.settings.log.Handler(), slog.LevelDebug) // what clients do wrong
	go func() {
		var err error
		if certificates == nil {
			err = server.Serve(l)
		} else {
			server.TLSConfig = certificates.Config()
			err = server.ServeTLS(l, "", "")
		}
		if !errors.Is(err, http.ErrServerClosed) {
			p.failed <- fmt.Errorf("serve %s: %w", address, err)
		}
	}()
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	return nil
}

// secureFlags say where explanations and the page are served to who has a token.
type secureFlags struct{ address, cert, key string }

func (f *secureFlags) add(g *pflag.FlagSet) {
	g.StringVar(&f.address, "secure-address", "", "Address of the authenticated HTTPS server (/ui, /why, /history, /ledger, /pending, /savings, /shadow). Requires a bearer token with ClusterRole dovetail-viewer. If empty, nothing is served")
	g.StringVar(&f.cert, "tls-cert-file", "", "Path to the TLS certificate for --secure-address, PEM. Reloaded when it changes. If unset, a self-signed certificate is generated")
	g.StringVar(&f.key, "tls-private-key-file", "", "Path to the private key for --tls-cert-file, PEM")
}

func (f *secureFlags) validate() error {
	if (f.cert == "") != (f.key == "") {
		return errors.New("--tls-cert-file and --tls-private-key-file must be set together")
	}
	if f.cert != "" && f.address == "" {
		return errors.New("--tls-cert-file requires --secure-address")
	}
	return nil
}

// certificates are those of the flags, or of its own making.
func (f *secureFlags) certificates(namespace string, log *slog.Logger) (*access.Certificates, error) {
	if f.cert != "" {
		c, err := access.FilesCertificates(f.cert, f.key, time.Now, log)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert-file: %w", err)
		}
		return c, nil
	}
	return access.OwnCertificates(func() ([]byte, []byte, error) { return client.MakeServingCertificate(namespace) }, time.Now, log)
}

// explainPaths are where explanations are.
var explainPaths = []string{"/ledger", "/history/", "/pending", "/savings/", "/shadow", "/why/"}

// metricsHandler serves /metrics and, where asked for, profiles; to this machine alone, which open says, explanations too.
func metricsHandler(ctl *controller.Controller, registry *prometheus.Registry, profiling, open bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	explain := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "served only on --secure-address, with a bearer token; use 'dovetail why'", http.StatusForbidden)
	}))
	if open {
		explain = access.LoopbackOnly(explanations(ctl))
	}
	for _, path := range explainPaths {
		mux.Handle(path, explain)
	}
	if profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// secureHandler serves explanations and the page to who has a token with the right to the path.
func secureHandler(ctl *controller.Controller, page *controllerPage, gate *access.Gate) http.Handler {
	inner := http.NewServeMux()
	explain := access.Sparing(explanations(ctl), time.Now)
	for _, path := range explainPaths {
		inner.Handle(path, explain)
	}
	const at = "/ui"
	inner.Handle(at+"/", http.StripPrefix(at, access.Sparing(web.Handler(page, page.samples), time.Now)))
	inner.Handle(at, http.RedirectHandler(at+"/", http.StatusMovedPermanently))
	mux := http.NewServeMux()
	mux.Handle("POST "+access.SignInPath, gate.SignIn(at+"/"))
	mux.Handle("/", access.SameSite(gate.Protect(inner)))
	return mux
}

// explanations answers what was decided and why, as JSON.
func explanations(ctl *controller.Controller) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ledger", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(ctl.Ledger.Entries(nil)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/history/", func(w http.ResponseWriter, r *http.Request) { serveHistory(ctl, w, r) })
	mux.HandleFunc("/pending", func(w http.ResponseWriter, r *http.Request) { servePending(ctl, w, r) })
	mux.HandleFunc("/savings/", func(w http.ResponseWriter, r *http.Request) { serveSavings(ctl, w, r) })
	mux.HandleFunc("/shadow", func(w http.ResponseWriter, r *http.Request) { serveShadow(ctl, w, r) })
	mux.HandleFunc("/why/", func(w http.ResponseWriter, r *http.Request) { serveWhy(ctl, w, r) })
	return mux
}

// healthHandler serves /healthz, and /readyz, which is well once the loop has seen the cluster.
func healthHandler(ctl *controller.Controller) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ctl.IsReady() {
			http.Error(w, "the cluster state has not been read yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
