// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package testwait

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that may fail: what it says is kept, and what runs it ends as with Fatalf.
type failing struct {
	testing.TB
	end  time.Time // of `go test -timeout`; zero: none
	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *failing) Deadline() (time.Time, bool) { return f.end, !f.end.IsZero() }

// fails returns what a test says that a function fails, and how long that took.
func fails(t *testing.T, end time.Time, run func(testing.TB)) (said string, took time.Duration) {
	t.Helper()
	f, done, begin := &failing{TB: t, end: end}, make(chan struct{}), time.Now()
	go func() {
		defer close(done)
		run(f)
	}()
	<-done
	return f.said, time.Since(begin)
}

func TestFactor(t *testing.T) {
	if f := Factor(); f < 1 || f > 20 || f != Factor() {
		t.Errorf("the factor is %g, then %g", f, Factor())
	}
	if Scale(time.Minute) < time.Minute {
		t.Errorf("a minute became %s", Scale(time.Minute))
	}
}

// A wait that reaches its limit fails with what was waited for and what was seen last, at its limit or in time before go test's.
func TestInVain(t *testing.T) {
	Factor() // measured outside the bubble
	synctest.Test(t, func(t *testing.T) {
		n := 0
		ask := func() error { n++; return fmt.Errorf("answer %d", n) }
		said, took := fails(t, time.Time{}, func(t testing.TB) { UntilFor(t, time.Hour, "it rains", ask) })
		if took != Scale(time.Hour) || n < 1000 || !strings.HasPrefix(said, "waiting until it rains: not within the limit of ") || !strings.HasSuffix(said, fmt.Sprint(": answer ", n)) {
			t.Errorf("after %s and %d answers: %s", took, n, said)
		}
		said, took = fails(t, time.Now().Add(30*time.Second), func(t testing.TB) { UntilFor(t, time.Hour, "it rains", ask) })
		if took != 10*time.Second || !strings.Contains(said, "it rains") {
			t.Errorf("30 s before go test's limit, after %s: %s", took, said)
		}
		said, took = fails(t, time.Time{}, func(t testing.TB) { Receive(t, "a letter", make(chan int)) })
		if took != Scale(Limit) || !strings.HasPrefix(said, "waiting for a letter: nothing within ") {
			t.Errorf("after %s: %s", took, said)
		}
		ctx := ContextFor(&failing{TB: t}, time.Second)
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), t.Name()) {
			t.Errorf("the context ended with %v", err)
		}
	})
}

func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outside := &failing{TB: t} // a test in a bubble may not be asked for its deadline
		n, begin := 0, time.Now()
		Until(outside, "the third time", func() error {
			if n++; n < 3 {
				return errors.New("not yet")
			}
			return nil
		})
		if outside.said != "" || n != 3 || time.Since(begin) != 2*Every {
			t.Errorf("asked %d times in %s", n, time.Since(begin))
		}
		c := make(chan string, 1)
		c <- "hello"
		if got := Receive(outside, "a word", c); got != "hello" {
			t.Errorf("received %q", got)
		}
		close(c)
		Receive(outside, "the end", c)
	})
}

// A question that is under way at the limit is told to end, and what was known before it is said.
func TestAQuestionThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		err := Poll(t.Context(), time.Minute, time.Second, func(ctx context.Context) error {
			if n++; n == 1 {
				return errors.New("two pods are pending")
			}
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, ErrLimit) || !strings.HasSuffix(err.Error(), "two pods are pending") {
			t.Errorf("it ended with %v", err)
		}
	})
}
