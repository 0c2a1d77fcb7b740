// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve starts a server with TLS behind a gate, on all addresses of this machine, and returns its port.
func serve(t *testing.T) (port string) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	certs, err := OwnCertificates(func() ([]byte, []byte, error) { return certificate(t, "own", time.Now().AddDate(1, 0, 0)) }, time.Now, log)
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: NewGate(&reviewer{}, "dovetail-system", time.Now).Protect(secret), TLSConfig: certs.Config(),
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	go func() { _ = server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// certificate makes one in PEM that ends at a time.
func certificate(t *testing.T, name string, end time.Time) (cert, key []byte, err error) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: end, DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), nil
}

// From every address of this machine, not from loopback alone, the token decides.
func TestTokensFromEveryAddress(t *testing.T) {
	port := serve(t)
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	asked := 0
	for _, a := range addresses {
		ip := a.(*net.IPNet).IP
		if ip.IsLinkLocalUnicast() {
			continue
		}
		asked++
		for token, want := range map[string]int{"": 401, "guessed": 401, "token-of-nobody": 403, "token-of-viewer": 200} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+net.JoinHostPort(ip.String(), port)+"/why/node/a", nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("from %s with token %q: %s, want %d", ip, token, res.Status, want)
			}
		}
	}
	if asked == 0 {
		t.Error("this machine has no address")
	}
	res, err := http.Get("http://127.0.0.1:" + port + "/why/node/a")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); res.StatusCode != 400 || strings.Contains(string(body), "why") {
		t.Errorf("without TLS: %s %s", res.Status, body)
	}
}

func nameOf(t *testing.T, c *Certificates) string {
	t.Helper()
	pair, err := c.Config().GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.Subject.CommonName
}

func TestFilesCertificates(t *testing.T) {
	now := time.Unix(1e9, 0)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write := func(name string, at int64) {
		cert, key, err := certificate(t, name, now.AddDate(1, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string][]byte{certFile: cert, keyFile: key} {
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file, time.Unix(at, 0), time.Unix(at, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, nil))
	clock := func() time.Time { return now }
	if _, err := FilesCertificates(certFile, keyFile, clock, log); err == nil || !strings.Contains(err.Error(), certFile) {
		t.Errorf("without files: %v", err)
	}
	write("first", 1)
	c, err := FilesCertificates(certFile, keyFile, clock, log)
	if err != nil {
		t.Fatal(err)
	}
	write("second", 2)
	if got := nameOf(t, c); got != "first" {
		t.Errorf("at once %s is served, want first", got)
	}
	now = now.Add(filesEvery)
	if got := nameOf(t, c); got != "second" {
		t.Errorf("later %s is served, want second", got)
	}
	if err := os.WriteFile(keyFile, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(filesEvery)
	if got := nameOf(t, c); got != "second" || !strings.Contains(said.String(), "can't be renewed") {
		t.Errorf("with a broken key %s is served, want second; the log has %q", got, said.String())
	}
}

func TestOwnCertificates(t *testing.T) {
	now := time.Unix(1e9, 0)
	made := 0
	c, err := OwnCertificates(func() ([]byte, []byte, error) {
		made++
		return certificate(t, fmt.Sprint(made), now.AddDate(1, 0, 0))
	}, func() time.Time { return now }, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	now = now.AddDate(0, 10, 0)
	if got := nameOf(t, c); got != "1" {
		t.Errorf("after ten months %s is served, want 1", got)
	}
	now = now.AddDate(0, 1, 15)
	if got := nameOf(t, c); got != "2" {
		t.Errorf("before its end %s is served, want 2", got)
	}
}
