// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Client asks the components and the API server, as the sandbox's admin. The
// handful of plain requests that the sandbox needs don't justify client-go,
// which would make every test of these packages compile it.
type Client struct {
	server string
	http   *http.Client
}

// NewClient reads the directory's authority and the admin's certificate.
func NewClient(d Dir, server string) (*Client, error) {
	ca, err := os.ReadFile(d.Cert("ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the sandbox's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read the sandbox's authority: %s holds no certificate", d.Cert("ca.crt"))
	}
	pair, err := tls.LoadX509KeyPair(d.Cert(Admin+".crt"), d.Cert(Admin+".key"))
	if err != nil {
		return nil, fmt.Errorf("read the admin's certificate: %w", err)
	}
	return &Client{server: server, http: &http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			Proxy:           nil, // Never through a proxy: everything is on loopback.
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		},
	}}, nil
}

// Healthy asks a health URL once.
func (c *Client) Healthy(ctx context.Context, url string) error {
	_, err := c.do(ctx, http.MethodGet, url, nil)
	return err
}

// WaitHealthy asks until the answer is 200 or ctx ends, and then says what the
// last answer was.
func (c *Client) WaitHealthy(ctx context.Context, url string) error {
	return poll(ctx, func() error { return c.Healthy(ctx, url) })
}

// poll repeats a question until it is answered without error.
func poll(ctx context.Context, ask func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if err := ask(); err == nil {
			return nil
		} else if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last answer: %w", context.Cause(ctx), last)
		case <-tick.C:
		}
	}
}

// WaitForDefaultAccount waits until pods can be made in the default namespace:
// admission refuses them before the controller manager has made their account.
func (c *Client) WaitForDefaultAccount(ctx context.Context) error {
	return poll(ctx, func() error {
		_, err := c.do(ctx, http.MethodGet, c.server+"/api/v1/namespaces/default/serviceaccounts/default", nil)
		return err
	})
}

// WaitForCRDs waits until the objects of every CustomResourceDefinition can be listed. Condition Established does not say so: the
// API server refuses lists of a new resource with 429 until it has filled its cache, except those with a limit, which need no cache.
func (c *Client) WaitForCRDs(ctx context.Context) error {
	return poll(ctx, func() error {
		var list struct {
			Items []struct {
				Spec struct {
					Group    string
					Names    struct{ Plural string }
					Versions []struct {
						Name   string
						Served bool
					}
				}
			}
		}
		if err := c.get(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &list); err != nil {
			return err
		}
		for _, crd := range list.Items {
			for _, v := range crd.Spec.Versions {
				if !v.Served {
					continue
				}
				if err := c.get(ctx, "/apis/"+crd.Spec.Group+"/"+v.Name+"/"+crd.Spec.Names.Plural, &struct{}{}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Version is the API server's, such as v1.37.2.
func (c *Client) Version(ctx context.Context) (string, error) {
	var v struct{ GitVersion string }
	err := c.get(ctx, "/version", &v)
	return v.GitVersion, err
}

// Count is how many objects a collection holds.
func (c *Client) Count(ctx context.Context, path string) (int, error) {
	var list struct {
		Metadata struct{ RemainingItemCount int }
		Items    []struct{}
	}
	if err := c.get(ctx, path+"?limit=1", &list); err != nil {
		return 0, err
	}
	return len(list.Items) + list.Metadata.RemainingItemCount, nil
}

// SendJSON sends a value and returns the body of a 2xx answer.
func (c *Client) SendJSON(ctx context.Context, method, url string, value any) ([]byte, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode the request to %s: %w", url, err)
	}
	return c.do(ctx, method, url, body)
}

func (c *Client) get(ctx context.Context, path string, into any) error {
	body, err := c.do(ctx, http.MethodGet, c.server+path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode the answer to GET %s: %w", path, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err // Says method and URL itself.
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, url, response.Status, firstLine(answer))
	}
	return answer, nil
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return string(line)
}
