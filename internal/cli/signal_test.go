// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// A process that is told to end while it waits for its input does so, with the signal's status and without an answer.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		status int
		words  string
		args   []string
	}{
		{syscall.SIGTERM, 143, "dovetail: terminated (SIGTERM): nothing was written\n", []string{"plan", "-f", "-"}},
		{syscall.SIGINT, 130, "dovetail: interrupted (SIGINT): nothing was written\n", []string{"plan", "-f", "-"}},
		{syscall.SIGTERM, 143, "dovetail: terminated (SIGTERM): nothing was written\n", []string{"convert", "--from", "cluster-autoscaler", "-f", "-"}},
	} {
		t.Run(c.args[0]+" "+c.signal.String(), func(t *testing.T) {
			var out, errs bytes.Buffer
			cmd := exec.Command("dovetail", c.args...) // this binary, see TestMain
			cmd.Stdout, cmd.Stderr = &out, &errs
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// More than a pipe holds: when it is written, some of it has been read, so the signals are listened for.
			if _, err := in.Write(bytes.Repeat([]byte("# a comment\n"), 1<<17)); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			var e *exec.ExitError
			// On a slow machine progress is said before.
			if err := cmd.Wait(); !errors.As(err, &e) || e.ExitCode() != c.status || out.Len() > 0 || !strings.HasSuffix(errs.String(), c.words) {
				t.Errorf("ended with %v, wrote %q and said %q; want status %d and %q", err, out.String(), errs.String(), c.status, c.words)
			}
		})
	}
}

// A server that is told to end while it waits for its API server does so.
func TestSignalWhileStarting(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if err := deaf.(*net.TCPListener).SetDeadline(time.Now().Add(testwait.Left(t, testwait.Limit))); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: 'http://"+deaf.Addr().String()+"'}}]\n"+
		"contexts: [{name: a, context: {cluster: a}}]\ncurrent-context: a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(testwait.Context(t), "dovetail", "controller", "--machines", "http://127.0.0.1:1", "--log-level", "error", "--kubeconfig", kubeconfig)
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	asked, err := deaf.Accept()
	if err != nil {
		t.Fatalf("it did not ask its API server: %v; it said %q", err, errs.String())
	}
	defer asked.Close()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var e *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &e) || e.ExitCode() != 143 || errs.String() != "dovetail: terminated (SIGTERM)\n" {
		t.Errorf("it ended with %v and said %q", err, errs.String())
	}
}

// What can't be cancelled is left behind, also in the middle of its answer; an answer that is there is written whole.
func TestPrompt(t *testing.T) {
	run := func(ctx context.Context, f func(*cobra.Command) error) (string, error) {
		var out bytes.Buffer
		c := &cobra.Command{Use: "answer", SilenceErrors: true, SilenceUsage: true, RunE: prompt(func(c *cobra.Command, _ []string, _ *progress) error { return f(c) })}
		c.SetOut(&out)
		c.SetArgs(nil)
		err := c.ExecuteContext(ctx)
		return out.String(), err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	release := make(chan struct{})
	defer close(release)
	out, err := run(ctx, func(c *cobra.Command) error {
		fmt.Fprint(c.OutOrStdout(), "half of it")
		cancel(stopped{syscall.SIGTERM})
		<-release
		return nil
	})
	var e exit
	if !errors.As(err, &e) || e.status != 143 || out != "" || !strings.Contains(err.Error(), "SIGTERM") {
		t.Errorf("a decision that was left behind: wrote %q, error %v", out, err)
	}
	ctx, cancel = context.WithCancelCause(context.Background())
	out, err = run(ctx, func(c *cobra.Command) error {
		cancel(stopped{syscall.SIGINT})
		return fmt.Errorf("ask: %w", context.Canceled)
	})
	if !errors.As(err, &e) || e.status != 130 || out != "" {
		t.Errorf("a question that was cancelled: wrote %q, error %v", out, err)
	}
	ctx, cancel = context.WithCancelCause(context.Background())
	out, err = run(ctx, func(c *cobra.Command) error {
		cancel(stopped{syscall.SIGINT})
		return fmt.Errorf("ask: %w", context.Cause(c.Context())) // as net/http says it
	})
	if !errors.As(err, &e) || e.status != 130 || out != "" {
		t.Errorf("a question that was stopped: wrote %q, error %v", out, err)
	}
	want := exit{unplaced, errors.New("")}
	if out, err = run(context.Background(), func(c *cobra.Command) error {
		fmt.Fprint(c.OutOrStdout(), "all ", "of it")
		return want
	}); out != "all of it" || !errors.Is(err, want) {
		t.Errorf("an answer: wrote %q, error %v", out, err)
	}
}
