// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package pki makes the sandbox's certificates: one authority, one serving
// certificate for loopback, one client certificate for each identity, and the
// key that signs service account tokens. It never talks to anything and never
// replaces a file that is there: data kept between two runs stays readable.
//
// Start reading at Ensure.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is generous because a sandbox kept with `down --keep` may be taken
// up again much later, and nothing here rotates certificates.
const lifetime = 10 * 365 * 24 * time.Hour

// Identity is a client certificate's subject: how RBAC sees the holder.
type Identity struct {
	File   string // base name of FILE.crt and FILE.key
	User   string // common name
	Groups []string
}

// Ensure makes what is missing below dir: ca, serving, sa and one pair for each
// identity.
func Ensure(dir string, serverNames []string, identities []Identity) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the certificate directory: %w", err)
	}
	if complete(dir, identities) {
		return nil
	}
	ca, caKey, err := authority(dir)
	if err != nil {
		return err
	}
	serving := &x509.Certificate{
		Subject: pkix.Name{CommonName: "dovetail-sandbox"},
		// etcd's peer and client sides present the same certificate, so it
		// serves and connects.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range serverNames {
		if ip := net.ParseIP(name); ip != nil {
			serving.IPAddresses = append(serving.IPAddresses, ip)
		} else {
			serving.DNSNames = append(serving.DNSNames, name)
		}
	}
	if err := issue(dir, "serving", serving, ca, caKey); err != nil {
		return err
	}
	for _, identity := range identities {
		if err := issueClient(dir, identity, ca, caKey); err != nil {
			return err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate the service account key: %w", err)
	}
	// Written last: its presence says that the set is complete.
	return writeKey(dir, "sa", key)
}

func issueClient(dir string, identity Identity, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	return issue(dir, identity.File, &x509.Certificate{
		Subject:     pkix.Name{CommonName: identity.User, Organization: identity.Groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
}

// Add makes the pair of one more identity below a directory that Ensure has
// filled. One that is there already stays.
func Add(dir string, identity Identity) error {
	if _, err := os.Stat(filepath.Join(dir, identity.File+".key")); err == nil {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	if err != nil {
		return fmt.Errorf("read the sandbox's authority: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("read the sandbox's authority: its key is a %T", pair.PrivateKey)
	}
	return issueClient(dir, identity, pair.Leaf, key)
}

func complete(dir string, identities []Identity) bool {
	files := []string{"ca.crt", "serving.crt", "serving.key", "sa.key"}
	for _, identity := range identities {
		files = append(files, identity.File+".crt", identity.File+".key")
	}
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(dir, file)); errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

func authority(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate the authority's key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "dovetail-sandbox-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	cert, err := sign(dir, "ca", template, key, template, key)
	if err != nil {
		return nil, nil, err
	}
	return cert, key, writeKey(dir, "ca", key)
}

func issue(dir, file string, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate the key of %s: %w", file, err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if _, err := sign(dir, file, template, key, ca, caKey); err != nil {
		return err
	}
	return writeKey(dir, file, key)
}

func sign(dir, file string, template *x509.Certificate, key *ecdsa.PrivateKey, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw the serial number of %s: %w", file, err)
	}
	now := time.Now()
	template.SerialNumber = serial
	template.NotBefore = now.Add(-time.Hour) // A clock set back a little must not void them.
	template.NotAfter = now.Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", file, err)
	}
	if err := writePEM(filepath.Join(dir, file+".crt"), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate of %s: %w", file, err)
	}
	return cert, nil
}

func writeKey(dir, file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", file, err)
	}
	return writePEM(filepath.Join(dir, file+".key"), "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
