// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package expander

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
)

const (
	method     = "/grpcplugin.Expander/BestOptions"
	mostAnswer = 128 << 20 // bytes of an answer, as many as Cluster Autoscaler takes
)

// Client is a gRPC client of an external expander.
type Client struct{ conn *grpc.ClientConn }

// Connect returns a client of the server at an address, HOST:PORT. The server's certificate must be signed by one of the
// certificates in a file. Connect makes no call, so the server may start later.
func Connect(address, certFile string) (*Client, error) {
	if certFile == "" {
		return nil, fmt.Errorf("--grpc-expander-url %s requires TLS; set --grpc-expander-cert to a file with the CA certificate of the server", address)
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("--grpc-expander-url %q: use HOST:PORT: %w", address, err)
	}
	pem, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("--grpc-expander-cert: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--grpc-expander-cert %s: it holds no certificate in PEM", certFile)
	}
	conn, err := grpc.NewClient(address, grpc.WithNoProxy(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 10 * time.Second}}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(encoded{}), grpc.MaxCallRecvMsgSize(mostAnswer)))
	if err != nil {
		return nil, fmt.Errorf("--grpc-expander-url %s: %w", address, err)
	}
	return &Client{conn}, nil
}

// BestOptions returns the names of the node groups that the server selects. They may include groups that were not in the query, or
// be empty. It returns an error if the server does not answer.
func (c *Client) BestOptions(ctx context.Context, query *nodegroups.Query) ([]string, error) {
	message, err := encodeRequest(query)
	if err != nil {
		return nil, err
	}
	var answer []byte
	if err := c.conn.Invoke(ctx, method, message, &answer); err != nil {
		failed := status.Convert(err)
		return nil, fmt.Errorf("ask the expander: gRPC status %d: %s", failed.Code(), failed.Message())
	}
	return decodeResponse(answer)
}

// encoded is gRPC's codec of messages that this package writes and reads itself: bytes, as they are.
type encoded struct{}

// Marshal returns the message, which is already encoded.
func (encoded) Marshal(v any) ([]byte, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("a message of type %T is not encoded yet", v)
	}
	return b, nil
}

// Unmarshal copies a message's bytes to v.
func (encoded) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("cannot decode a message into %T", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

// Name returns the name of the encoding in gRPC, which is sent to the server.
func (encoded) Name() string { return "proto" }
