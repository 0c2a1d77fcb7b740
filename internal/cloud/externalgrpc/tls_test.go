// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/externalgrpctest"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its certificate in PEM
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{t: t}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, key := a.sign(a.cert)
	a.key, a.file = key, a.write("CERTIFICATE", der)
	return a
}

// sign returns a certificate in DER, signed by the authority or, before it has a key, by itself, and its private key.
func (a *authority) sign(template *x509.Certificate) ([]byte, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := key
	if a.key != nil {
		signer = a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue writes a certificate for loopback and its key, and returns the files.
func (a *authority) issue(usage x509.ExtKeyUsage) (cert, key string) {
	a.t.Helper()
	der, private := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "of " + a.cert.Subject.CommonName}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
	bytes, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write("CERTIFICATE", der), a.write("EC PRIVATE KEY", bytes)
}

func (a *authority) write(kind string, der []byte) string {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "file.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return file
}

// TestMutualTLS: a server that wants a certificate of its clients is asked with the right one, and neither a client that it does not know nor a
// server that the client does not know is.
func TestMutualTLS(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	cert, key := ours.issue(x509.ExtKeyUsageServerAuth)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(parse(t, ours.file))
	s := &externalgrpctest.Server{}
	s.AddGroup("small", "a", model.OnDemand, 2, 0.1)
	address := s.Start(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12})))

	for _, x := range []struct {
		name           string
		client, server *authority // who signed the client's certificate, and whose servers it trusts
		want           string
	}{
		{"the right certificates", ours, ours, ""},
		{"a client of others", others, ours, "and address, key, cert and cacert in --cloud-config"},
		{"a server of others", ours, others, "certificate signed by unknown authority"},
		{"no certificates", nil, nil, "a server that requires TLS needs key, cert and cacert"},
	} {
		t.Run(x.name, func(t *testing.T) {
			config := &externalgrpc.Config{Address: address}
			if x.client != nil {
				config.Cert, config.Key = x.client.issue(x509.ExtKeyUsageClientAuth)
				config.CACert = x.server.file
			}
			p, err := externalgrpc.New(config, &cloudtest.Record{}, state.New().Resources(), cloud.Wall{},
				slog.New(slog.NewTextHandler(io.Discard, nil)))
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.List(t.Context())
			if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
				t.Errorf("have %v, want %q", err, x.want)
			}
		})
	}
}

func parse(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
