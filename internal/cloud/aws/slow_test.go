// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// slowList lets calls through, and hands those of DescribeInstances to somebody else once it is told to.
type slowList struct {
	by   http.RoundTripper
	list func(*http.Request) // nil: they go through too
}

func (s *slowList) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.list != nil && r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if strings.Contains(string(body), "Action=DescribeInstances&") {
			s.list(r)
		}
	}
	return s.by.RoundTrip(r)
}

// TestALaunchDoesNotWaitForAList: who buys needs a list of what was there before this process, and any will do.
func TestALaunchDoesNotWaitForAList(t *testing.T) {
	a := open(t, some(t, "m5.large"), cloud.Wall{})
	slow := &slowList{by: a}
	p := a.providerOf(a.through(slow))
	if _, err := p.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked, bought, listed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	slow.list = func(*http.Request) { close(asked); <-bought }
	go func() {
		_, err := p.List(t.Context())
		listed <- err
	}()
	testwait.Receive(t, "a list to be under way", asked)
	res := p.Launch(testwait.Context(t), []cloud.LaunchRequest{{ClaimName: "c", ClaimUID: "c", Class: class("")}})[0]
	close(bought)
	if res.Err != nil {
		t.Errorf("nothing is bought while a list is under way: %v", res.Err)
	}
	if err := testwait.Receive(t, "the list", listed); err != nil {
		t.Error(err)
	}
}

// TestAListHasAnEnd: whoever asks for one without saying for how long keeps all others from theirs.
func TestAListHasAnEnd(t *testing.T) {
	clock := &skipping{}
	a := open(t, some(t, "m5.large"), clock)
	slow := &slowList{by: a}
	limited := make(chan bool, 10)
	slow.list = func(r *http.Request) {
		_, ok := r.Context().Deadline()
		limited <- ok
	}
	p := a.providerOf(a.through(slow), func(c *awsapi.Config) {
		c.InterruptionQueue, c.StatusCheckInterval = awstest.Default().Queue, 0 // this clock would leap from check to check, past the time for which the queue keeps messages
	})
	res := a.provider().Launch(t.Context(), []cloud.LaunchRequest{{ClaimName: "c", ClaimUID: "c", Class: class("")}})[0]
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	id := res.ProviderID[strings.LastIndexByte(res.ProviderID, '/')+1:]
	a.control("POST", "interrupt", awstest.Interruption{Kind: awstest.Rebalance, Instances: []string{id}}, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- p.Interruptions(ctx, func(context.Context, cloud.Interruption) error { return nil })
	}()
	if !testwait.Receive(t, "a list of all machines", limited) {
		t.Error("a notice has all machines listed, for as long as that may take")
	}
	stop()
	if err := testwait.Receive(t, "the end of Interruptions", ended); err != nil {
		t.Error(err)
	}
}
