// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsclients

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/cloudtest"
	"github.com/dovetail-sh/dovetail/internal/cloud/simulated"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// program is the path of a program of somebody else's, or skips the test. These tests are run by `make verify-clients` alone.
func program(t *testing.T, name string) string {
	t.Helper()
	if os.Getenv("DOVETAIL_AWS_CLIENTS") == "" {
		t.Skip("run `make verify-clients`")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed here: not run", name)
	}
	return path
}

// simulatedAWS serves an account in which a group and an instance of it are, and returns its URL.
func simulatedAWS(t *testing.T) string {
	t.Helper()
	c, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	settings := awstest.Default()
	settings.Endpoint = "https://127.0.0.1:6443"
	account, err := awstest.New(c, settings, cloud.Wall{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := simulated.Open(simulated.Config{Journal: filepath.Join(t.TempDir(), "journal"), Catalog: c, Clock: cloud.Wall{}, Guest: account}, cloudtest.NoNodes{})
	if err != nil {
		t.Fatal(err)
	}
	account.Attach(m)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	serve := func(what func(context.Context, net.Listener) error) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() {
			if err := what(ctx, l); err != nil {
				t.Error(err)
			}
		})
		return "http://" + l.Addr().String()
	}
	serve(m.Serve)
	url := serve(account.Serve)
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return url
}

// moto starts moto's server and returns its URL.
func moto(t *testing.T) string {
	t.Helper()
	path := program(t, "moto_server")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	cmd := exec.Command(path, "-H", "127.0.0.1", "-p", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	url := "http://127.0.0.1:" + port
	testwait.Until(t, "moto's server answers", func() error {
		res, err := http.Get(url + "/moto-api/")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", res.Status)
		}
		return nil
	})
	return url
}

// connect returns clients of the AWS at a URL.
func connect(t *testing.T, url string) *awsapi.Clients {
	t.Helper()
	t.Setenv("AWS_CA_BUNDLE", "")
	c, err := awsapi.Connect(t.Context(), config.WithBaseEndpoint(url), config.WithRegion("us-east-1"), config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "none", "")))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
