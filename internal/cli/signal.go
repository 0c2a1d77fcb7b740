// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// stopped is the cause of a context that a signal has ended.
type stopped struct{ signal syscall.Signal }

func (s stopped) Error() string {
	if s.signal == syscall.SIGINT {
		return "interrupted (SIGINT)"
	}
	return "terminated (SIGTERM)"
}

// Signals returns a copy of ctx that is canceled on the first SIGINT or SIGTERM. A second signal terminates the process
// immediately.
func Signals(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(got)
		select {
		case s := <-got:
			number, _ := s.(syscall.Signal)
			cancel(stopped{number})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// prompt makes a verb that only answers end as soon as a signal comes, whatever it is at: reading, asking, or a decision, which can't be
// cancelled and is left behind. The standard output gets all of its answer or nothing; an answer that is there is written out. Who waits long for
// it is told what the verb is at.
func prompt(run func(*cobra.Command, []string, *progress) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		out, before := c.OutOrStdout(), ""
		defer c.SetOut(out)
		for {
			answer, err := promptOnce(run, c, args, out)
			if answer != before {
				if _, e := io.WriteString(out, answer); e != nil {
					return fmt.Errorf("write the answer: %w", e)
				}
				before = answer
			}
			if err != nil && !(before != "" && isWatching(c) && cancelled(err)) || !isWatching(c) {
				return err
			}
			select {
			case <-c.Context().Done():
				err := ended(c.Context())
				if e := (exit{}); errors.As(err, &e) {
					return exit{e.status, errors.New("")} // a watch ends this way: nothing is to be said
				}
				return err
			case <-time.After(watchEvery):
			}
		}
	}
}

// promptOnce returns the answer of a verb as it is written to out.
func promptOnce(run func(*cobra.Command, []string, *progress) error, c *cobra.Command, args []string, out io.Writer) (string, error) {
	var answer bytes.Buffer
	c.SetOut(&answer)
	done, shown := make(chan error, 1), showProgress(c.ErrOrStderr())
	defer shown.end() // before anything else is said
	go func() { done <- run(c, args, shown) }()
	select {
	case err := <-done:
		if cancelled(err) {
			return "", ended(c.Context())
		}
		text, e := fitted(c, out, answer.String())
		if err == nil {
			err = e
		}
		return text, err
	case <-c.Context().Done():
		return "", ended(c.Context())
	}
}

// cancelled reports whether an error is that the context of a call has ended; some calls say so in the words of its cause.
func cancelled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.As(err, new(stopped))
}

// ended is the error of a verb whose context has ended, with the status that a shell knows a signal by.
func ended(ctx context.Context) error {
	err := context.Cause(ctx)
	if s := (stopped{}); errors.As(err, &s) {
		return exit{128 + int(s.signal), fmt.Errorf("%w: nothing was written", s)}
	}
	return err
}
