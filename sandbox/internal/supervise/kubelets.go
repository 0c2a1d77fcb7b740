// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/dovetail-sh/dovetail/sandbox/internal/plane"
)

// kubelets starts and ends the kubelets of simulated machines, which are
// children as the other components are:
//
//	PUT    /v1/kubelets/NODE  the machine, as dovetail-kubelet reads it; the kubelet has been started. Repeated, it changes nothing
//	DELETE /v1/kubelets/NODE  the machine is turned off: its kubelet has ended. One that is not there is success
type kubelets struct {
	supervisor *supervisor

	mu      sync.Mutex // held while one is started or ended
	running map[string]*kubelet
}

type kubelet struct {
	child   *child
	machine []byte
}

// serveKubelets serves until the sandbox ends.
func (s *supervisor) serveKubelets() error {
	listener, err := net.Listen("tcp4", s.plan.KubeletsAddress)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			return &deathError{name: "the supervisor", report: err.Error(), lostPort: true}
		}
		return fmt.Errorf("listen for the machines that want kubelets: %w", err)
	}
	k := &kubelets{supervisor: s, running: map[string]*kubelet{}}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/kubelets/{node}", k.answer(k.start))
	mux.HandleFunc("DELETE /v1/kubelets/{node}", k.answer(func(node string, _ []byte) error { return k.end(node) }))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.New(os.Stderr, "kubelets: ", 0)}
	go func() { _ = server.Serve(listener) }() // It ends with Close.
	context.AfterFunc(s.parent, func() { _ = server.Close() })
	return nil
}

func (k *kubelets) answer(do func(node string, body []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err == nil {
			err = do(r.PathValue("node"), body)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s %s %s: %v\n", time.Now().UTC().Format(time.RFC3339Nano), r.Method, r.URL.Path, err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// start starts the kubelet of a node's machine, unless it has been.
func (k *kubelets) start(node string, machine []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if have := k.running[node]; have != nil {
		if !bytes.Equal(have.machine, machine) {
			return fmt.Errorf("another machine has a kubelet for node %s", node)
		}
		return nil
	}
	s := k.supervisor
	component, err := plane.Kubelet(s.dir, s.options, s.plan, node, machine)
	if err != nil {
		return err
	}
	c := &child{spec: component}
	if err := s.start(s.parent, c); err != nil {
		return err
	}
	k.running[node] = &kubelet{c, machine}
	return nil
}

// end ends the kubelet of a node, forgets it and removes its files.
func (k *kubelets) end(node string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	have := k.running[node]
	if have == nil {
		return nil
	}
	s := k.supervisor
	s.end(have.child, 0)
	delete(k.running, node)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children = slices.DeleteFunc(s.children, func(c *child) bool { return c == have.child })
	return errors.Join(s.writeState(), plane.RemoveKubelet(s.dir, node))
}
