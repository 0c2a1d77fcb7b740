// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// wire is a TCP proxy that can be cut.
type wire struct {
	to    string
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (w *wire) serve(l net.Listener) {
	for {
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = a.Close()
			continue
		}
		w.mu.Lock()
		if w.cut {
			_ = a.Close()
			_ = b.Close()
		} else {
			w.conns = append(w.conns, a, b)
			go func() { _, _ = io.Copy(a, b); _ = a.Close() }()
			go func() { _, _ = io.Copy(b, a); _ = b.Close() }()
		}
		w.mu.Unlock()
	}
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for _, c := range w.conns {
			_ = c.Close()
		}
		w.conns = nil
	}
}

// What happened while the connection was down is seen when it is up again: what came, what went, and what went and came back as
// another object of the same name.
func TestWatchResumes(t *testing.T) {
	p := newPlane(t)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(kubetest.Sandbox(t), "dovetail.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	proxy := &wire{to: u.Host}
	go proxy.serve(l)
	config.Host, config.QPS = "https://"+l.Addr().String(), -1
	if p.us, err = client.New(p.ctx, config, client.ReadWrite); err != nil {
		t.Fatal(err)
	}
	w := p.watch(t)

	p.makePod(t, "resume-goes", nil)
	first := p.makePod(t, "resume-again", nil)
	has := func(name string) func(*state.State) bool {
		return func(s *state.State) bool { return s.FindPod("default/"+name) != nil }
	}
	w.until("both pods", func(s *state.State) bool { return has("resume-goes")(s) && has("resume-again")(s) })
	proxy.set(true)
	zero := int64(0)
	for _, name := range []string{"resume-goes", "resume-again"} {
		if err := p.admin.Core.Delete().Namespace("default").Resource("pods").Name(name).Body(&metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, GracePeriodSeconds: &zero}).Do(context.Background()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	again := p.makePod(t, "resume-again", nil)
	p.makePod(t, "resume-comes", nil)
	if has("resume-comes")(w.s) || !has("resume-goes")(w.s) {
		t.Fatal("the wire was not cut")
	}
	proxy.set(false)
	w.until("what happened meanwhile", func(s *state.State) bool {
		x := s.FindPod("default/resume-again")
		return has("resume-comes")(s) && !has("resume-goes")(s) && x != nil && x.UID == string(again.UID) && x.UID != string(first.UID)
	})
}
