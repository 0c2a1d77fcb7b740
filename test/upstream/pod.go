// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/cri-streaming/pkg/streaming/portforward"

	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const (
	coordinationPath = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	podsPath         = "/api/v1/namespaces/kube-system/pods"
	controllerPod    = "autoscaler"
	metricsPort      = "8080" // of Karpenter's pod
	streamTimeout    = time.Minute
)

// controllerLease names the pod that suites measure. It was never renewed, so no autoscaler takes its holder for a running one.
const controllerLease = `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"karpenter-leader-election","namespace":"kube-system"},"spec":{"holderIdentity":"` + controllerPod + `_0"}}`

// controllerPodText is the pod of an autoscaler that is a process outside the cluster. Its scheduling gate keeps it from being scheduled.
const controllerPodText = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + controllerPod + `","namespace":"kube-system"},"spec":{"schedulingGates":[{"name":"dovetail.sh/outside"}],
"containers":[{"name":"controller","image":"none"}]}}`

// podServer is a proxy of the API server that also answers what suites ask of the autoscaler's pod: its metrics, through the pod's proxy and
// through a forwarded port. The autoscaler is a process outside the cluster, so no kubelet could answer.
type podServer struct {
	Kubeconfig string // of the proxy
	metrics    string // address of the autoscaler's metrics, such as 127.0.0.1:8080
	server     *httptest.Server
}

// servePod creates the autoscaler's pod and lease, and starts a proxy of the sandbox's API server. It writes the proxy's kubeconfig into dir.
func servePod(ctx context.Context, s *sandbox.Sandbox, metrics, dir string) (*podServer, error) {
	for path, text := range map[string]string{coordinationPath: controllerLease, podsPath: controllerPodText} {
		if err := s.Create(ctx, path, text); err != nil {
			return nil, err
		}
	}
	config, err := s.Config(sandbox.Admin)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	p := &podServer{Kubeconfig: filepath.Join(dir, "proxy.kubeconfig"), metrics: metrics}
	// TLS, because client-go sends no token without it, and HTTP/1.1, because a forwarded port needs it.
	p.server = httptest.NewTLSServer(p.handler(target, transport, token))
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	const name = "proxy"
	kubeconfig := clientcmdapi.Config{CurrentContext: name, Contexts: map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		Clusters: map[string]*clientcmdapi.Cluster{name: {Server: p.server.URL, CertificateAuthorityData: authority}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {Token: token}}}
	if err := clientcmd.WriteToFile(kubeconfig, p.Kubeconfig); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// handler returns the proxy's handler. Every request needs the token.
func (p *podServer) handler(target *url.URL, transport http.RoundTripper, token string) http.Handler {
	server := httputil.NewSingleHostReverseProxy(target)
	server.Transport, server.FlushInterval = transport, -1 // events of a watch are passed on at once
	mux := http.NewServeMux()
	mux.Handle("/", server)
	mux.HandleFunc("GET "+podsPath+"/http:"+controllerPod+":"+metricsPort+"/proxy/metrics", func(w http.ResponseWriter, r *http.Request) {
		p.proxyMetrics().ServeHTTP(w, r)
	})
	mux.HandleFunc(podsPath+"/"+controllerPod+"/portforward", func(w http.ResponseWriter, r *http.Request) {
		portforward.ServePortForward(w, r, p, controllerPod, "", nil, streamTimeout, streamTimeout, portforward.SupportedProtocols)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) != 1 {
			http.Error(w, "token missing or wrong", http.StatusUnauthorized)
			return
		}
		r.Header.Del("Authorization") // the transport has its own credentials
		mux.ServeHTTP(w, r)
	})
}

func (p *podServer) proxyMetrics() http.Handler {
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: p.metrics})
		r.Out.URL.Path = "/metrics"
	}}
}

// PortForward copies data between a stream and the autoscaler's metrics, whatever the port.
func (p *podServer) PortForward(ctx context.Context, _, _ string, _ int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", p.metrics)
	if err != nil {
		return err
	}
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(conn, stream)
		sent <- errors.Join(err, conn.(*net.TCPConn).CloseWrite())
	}()
	if _, err := io.Copy(stream, conn); err != nil {
		return err
	}
	_ = stream.Close() // also ends the other direction
	return ignoreClosed(<-sent)
}

// ignoreClosed drops the errors of a connection that the other end has closed.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

// stop ends the proxy, with the watches that it still serves.
func (p *podServer) stop() {
	p.server.CloseClientConnections()
	p.server.Close()
}
