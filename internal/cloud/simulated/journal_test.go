// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

type noNodes struct{}

func (noNodes) CreateNode(context.Context, machines.NodeSpec) error { return nil }
func (noNodes) RebootNode(context.Context, machines.NodeSpec) error { return nil }
func (noNodes) DeleteNode(context.Context, string, string) error    { return nil }

// TestJournalCannotBeWritten: the launch is not answered as made, nothing is answered any more, and the server stops with the
// reason, so that memory doesn't run ahead of disk.
func TestJournalCannotBeWritten(t *testing.T) {
	c, err := catalog.Parse("test", []byte(`{"instanceTypes":[{"name":"a","arch":"amd64","vcpu":2,"memoryMiB":8192,"allocatable":{"cpu":"1","memory":"1Gi","pods":"9"},"onDemandUSDPerHour":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "journal")
	s, err := Open(Config{Journal: path, Catalog: c}, noNodes{})
	if err != nil {
		t.Fatal(err)
	}
	whole := s.journal.f
	if s.journal.f, err = os.Open(path); err != nil { // can't be written
		t.Fatal(err)
	}
	defer whole.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), l) }()
	for range 2 {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/v1/launch", strings.NewReader(`{"requests":[{"claimUID":"a","types":["a"]}]}`)))
		if w.Code != 500 || !strings.Contains(w.Body.String(), "journal") {
			t.Errorf("have %d %s", w.Code, w.Body)
		}
	}
	if err := testwait.Receive(t, "the end of the server", done); !errors.Is(err, os.ErrPermission) && (err == nil || !strings.Contains(err.Error(), path)) {
		t.Errorf("the server ended with %v", err)
	}
}
