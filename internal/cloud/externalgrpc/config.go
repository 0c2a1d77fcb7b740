// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"sigs.k8s.io/yaml"
)

// DefaultTimeout is the default timeout of a call, the same as in Cluster Autoscaler.
const DefaultTimeout = 5 * time.Second

// mostAnswer is how many bytes an answer may have, as many as Cluster Autoscaler takes.
const mostAnswer = 128 << 20

// Config configures the connection to a server. Its keys are those of Cluster Autoscaler's --cloud-config for
// externalgrpc.
type Config struct {
	Address string `json:"address"` // host:port
	Key     string `json:"key"`     // path of the client's private key (PEM)
	Cert    string `json:"cert"`    // path of the client's certificate (PEM)
	CACert  string `json:"cacert"`  // path of the CA certificate of the server (PEM)
	Timeout string `json:"grpc_timeout"`
}

// ReadConfig reads a configuration file in YAML. Errors name the file, the field, its value and the remedy.
func ReadConfig(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read cloud config: %w", err)
	}
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return nil, fmt.Errorf("cloud config %s: %w; the keys are address, key, cert, cacert and grpc_timeout", path, err)
	}
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("cloud config %s: %w", path, err)
	}
	return &c, nil
}

func (c *Config) validate() error {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return fmt.Errorf("address: %q: use HOST:PORT: %w", c.Address, err)
	}
	if _, err := c.timeout(); err != nil {
		return err
	}
	if c.Key == "" && c.Cert == "" && c.CACert == "" {
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			return nil
		}
		return fmt.Errorf("address: %q: a server on another host requires TLS; set key, cert and cacert", c.Address)
	}
	var missing []string
	for _, f := range []struct{ field, value string }{{"key", c.Key}, {"cert", c.Cert}, {"cacert", c.CACert}} {
		if f.value == "" {
			missing = append(missing, f.field)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s: missing; TLS needs key, cert and cacert, paths of PEM files", strings.Join(missing, ", "))
	}
	return nil
}

func (c *Config) timeout() (time.Duration, error) {
	if c.Timeout == "" {
		return DefaultTimeout, nil
	}
	d, err := time.ParseDuration(c.Timeout)
	if err != nil || d <= 0 || d > time.Minute {
		return 0, fmt.Errorf("grpc_timeout: %q: use a duration from 1ms to 1m, for example 5s", c.Timeout)
	}
	return d, nil
}

const (
	// redialMost is the maximum delay before a server that was not reached is tried again. gRPC's own is two minutes.
	redialMost = 5 * time.Second
	// silentFor is how long a server may send nothing while calls wait for it, and silentMore how long it then has to answer a ping, before its connection is
	// replaced. Otherwise the calls of a quarter of an hour fail after the server's host is lost. Servers allow such pings: they have sent something since the
	// last one, or do not answer.
	silentFor  = 20 * time.Second
	silentMore = 5 * time.Second
)

// dial returns a connection to the server. It makes no requests, because the server may start later.
func (c *Config) dial(more ...grpc.DialOption) (*grpc.ClientConn, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	secure := insecure.NewCredentials()
	if c.CACert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("cert %s, key %s: %w", c.Cert, c.Key, err)
		}
		pem, err := os.ReadFile(c.CACert)
		if err != nil {
			return nil, fmt.Errorf("cacert: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(pem) {
			return nil, errors.New("cacert " + c.CACert + ": no certificate in PEM")
		}
		secure = credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS12})
	}
	redial := grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: redialMost}
	redial.Backoff.MaxDelay = redialMost
	conn, err := grpc.NewClient("dns:///"+c.Address, append([]grpc.DialOption{grpc.WithTransportCredentials(secure), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(redial), grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silentFor, Timeout: silentMore}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostAnswer))}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Address, err)
	}
	return conn, nil
}
