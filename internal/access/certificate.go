// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package access

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	filesEvery  = 10 * time.Second    // how often files are looked at again
	renewBefore = 30 * 24 * time.Hour // its end a certificate of one's own is made anew
)

// Certificates provides the certificate of a server and renews it. It is safe for concurrent use.
type Certificates struct {
	now  func() time.Time
	load func() (*tls.Certificate, error) // returns nil where the one that there is will do

	mu      sync.Mutex
	current *tls.Certificate
	again   time.Time // not before it is loaded again
	log     *slog.Logger
}

// FilesCertificates reads a certificate and its key, in PEM, and reads them again within ten seconds of a change. If a later read
// fails, it logs the error and keeps the current certificate.
func FilesCertificates(certFile, keyFile string, now func() time.Time, log *slog.Logger) (*Certificates, error) {
	var changed time.Time
	c := &Certificates{now: now, log: log}
	c.load = func() (*tls.Certificate, error) {
		newest := time.Time{}
		for _, name := range []string{certFile, keyFile} {
			info, err := os.Stat(name)
			if err != nil {
				return nil, fmt.Errorf("read certificate: %w", err)
			}
			if info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
		if newest.Equal(changed) {
			return nil, nil
		}
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("read certificate %s and key %s: %w", certFile, keyFile, err)
		}
		changed = newest
		return &pair, nil
	}
	return c, c.refresh()
}

// OwnCertificates creates a certificate with make, which returns certificate and key in PEM, and renews it before it expires.
func OwnCertificates(make func() (cert, key []byte, err error), now func() time.Time, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{now: now, log: log}
	c.load = func() (*tls.Certificate, error) {
		if c.current != nil && now().Before(c.current.Leaf.NotAfter.Add(-renewBefore)) {
			return nil, nil
		}
		cert, key, err := make()
		if err != nil {
			return nil, fmt.Errorf("generate certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("generate certificate: %w", err)
		}
		return &pair, nil
	}
	return c, c.refresh()
}

// refresh loads the certificate where it is due. The caller holds mu, or has c for itself.
func (c *Certificates) refresh() error {
	now := c.now()
	if now.Before(c.again) {
		return nil
	}
	c.again = now.Add(filesEvery)
	fresh, err := c.load()
	if fresh != nil {
		c.current = fresh
	}
	return err
}

// Config returns a server configuration with these certificates.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if err := c.refresh(); err != nil {
			c.log.Warn("certificate can't be renewed; the previous one stays in use", "error", err)
		}
		return c.current, nil
	}}
}
