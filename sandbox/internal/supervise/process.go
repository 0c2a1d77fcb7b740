// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package supervise

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// environment is ours without what would steer a component from outside: a
// person's ETCD_NAME or KUBECONFIG must not reach into the sandbox.
func environment(extra []string) []string {
	var env []string
next:
	for _, pair := range os.Environ() {
		for _, prefix := range []string{"ETCD", "KUBE", "KWOK", "GOGC=", "GODEBUG=", "DOVETAIL_SANDBOX_DIR="} {
			if strings.HasPrefix(pair, prefix) {
				continue next
			}
		}
		env = append(env, pair)
	}
	return append(env, extra...)
}

// starter starts processes from one thread that never ends: Linux sends the
// parent-death signal when the starting thread goes, not the process.
type starter struct{ calls chan func() }

func newStarter() *starter {
	s := &starter{calls: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for call := range s.calls {
			call()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	started := make(chan error)
	s.calls <- func() { started <- cmd.Start() }
	return <-started
}

// errorGroup runs functions at once; the first that fails ends the others.
type errorGroup struct {
	group sync.WaitGroup
	once  sync.Once
	err   error
}

func (g *errorGroup) run(giveUp context.CancelCauseFunc, f func() error) {
	g.group.Go(func() {
		if err := f(); err != nil {
			g.once.Do(func() { g.err = err })
			giveUp(err)
		}
	})
}

func (g *errorGroup) wait() error {
	g.group.Wait()
	return g.err
}
