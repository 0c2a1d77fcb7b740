// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package expander

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
)

const (
	method = "/grpcplugin.Expander/BestOptions"

	frameHeader   = 5         // a byte that says whether a message is compressed, and its length
	mostAnswer    = 128 << 20 // bytes of an answer, as many as Cluster Autoscaler takes
	statusMessage = "Grpc-Message"
	statusCode    = "Grpc-Status"
)

// Client asks one server.
type Client struct {
	url  string
	http *http.Client
}

// Connect returns a client of the server at an address, HOST:PORT, whose certificate is signed by one of those in a file.
// Nothing is asked yet: a server may come up later.
func Connect(address, certFile string) (*Client, error) {
	if certFile == "" {
		return nil, fmt.Errorf("--grpc-expander-url %s: without TLS no expander is asked; give --grpc-expander-cert, a file with the certificate that signs the server's", address)
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
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, DisableCompression: true,
		DialContext: (&net.Dialer{Timeout: time.Second, KeepAlive: 15 * time.Second}).DialContext, TLSHandshakeTimeout: time.Second, IdleConnTimeout: 5 * time.Minute,
	}
	return &Client{url: "https://" + address + method, http: &http.Client{Transport: transport}}, nil
}

// BestOptions returns the names of the groups that are to grow, as the server says: it may name others than it was asked
// about, or none. An error says that it did not answer.
func (c *Client) BestOptions(ctx context.Context, query *nodegroups.Query) ([]string, error) {
	message, err := encodeRequest(query)
	if err != nil {
		return nil, err
	}
	frame := make([]byte, frameHeader, frameHeader+len(message))
	binary.BigEndian.PutUint32(frame[1:], uint32(len(message)))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(append(frame, message...)))
	if err != nil {
		return nil, fmt.Errorf("ask the expander: %w", err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	if until, limited := ctx.Deadline(); limited {
		req.Header.Set("Grpc-Timeout", strconv.FormatInt(max(1, time.Until(until).Milliseconds()), 10)+"m")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the expander: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the expander's answer: %w", err)
	}
	if err := statusOf(resp); err != nil {
		return nil, err
	}
	switch {
	case len(body) > mostAnswer:
		return nil, fmt.Errorf("the expander's answer is longer than %d bytes", mostAnswer)
	case len(body) < frameHeader:
		return nil, errors.New("the expander's answer ends too early")
	case body[0] != 0:
		return nil, errors.New("the expander's answer is compressed, which was not asked for")
	}
	if n := int(binary.BigEndian.Uint32(body[1:frameHeader])); n != len(body)-frameHeader {
		return nil, fmt.Errorf("the expander's answer should have %d bytes and has %d", n, len(body)-frameHeader)
	}
	return decodeResponse(body[frameHeader:])
}

// statusOf is what a server says went wrong; nil: nothing. The status comes behind the answer, or before it where there is
// none.
func statusOf(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the expander answers HTTP status %s", resp.Status)
	}
	from := resp.Trailer
	if from.Get(statusCode) == "" {
		from = resp.Header
	}
	switch code := from.Get(statusCode); code {
	case "0":
		return nil
	case "":
		return errors.New("the expander's answer has no gRPC status: it speaks another protocol, or ended early")
	default:
		message, err := url.PathUnescape(from.Get(statusMessage))
		if err != nil {
			message = from.Get(statusMessage)
		}
		return fmt.Errorf("the expander answers gRPC status %s: %s", code, message)
	}
}
