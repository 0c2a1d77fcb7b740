// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// reporter makes reports by a function.
type reporter struct {
	source
	report func(io.Writer) error
}

func (r reporter) Report(_ context.Context, w io.Writer, _ string, _ time.Duration) error {
	return r.report(w)
}

// TestReportsAreKept: readers share a report, also of one who has left; a report that is too old is sent while it is renewed; a failure is told, and
// the next reader starts anew.
func TestReportsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		r := &reports{made: map[string]*made{}, source: reporter{report: func(w io.Writer) error { // takes ten seconds, and every third fails
			n := calls.Add(1)
			time.Sleep(10 * time.Second)
			if n%3 == 0 {
				return errors.New("the cluster does not answer")
			}
			_, err := fmt.Fprintf(w, "{\"number\": %d}", n)
			return err
		}}}
		read := func(ctx context.Context, after time.Time) string {
			out, err := r.read(ctx, "doctor", time.Hour, after)
			if err != nil {
				return err.Error()
			}
			return fmt.Sprintf("%s %.0f s %v", out.Report, out.Seconds, out.Renewed)
		}
		want := func(got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		want(read(impatient, time.Time{}), context.DeadlineExceeded.Error())
		want(read(t.Context(), time.Time{}), `{"number":1} 10 s false`)
		want(read(t.Context(), time.Time{}), `{"number":1} 10 s false`)
		want(read(t.Context(), time.Now()), `{"number":1} 10 s true`) // who wants a newer one sees that it is being made
		time.Sleep(11 * time.Second)
		want(read(t.Context(), time.Time{}), `{"number":2} 10 s false`)
		time.Sleep(maxAges["doctor"])
		want(read(t.Context(), time.Time{}), `{"number":2} 10 s true`)
		time.Sleep(5 * time.Second)
		want(read(t.Context(), time.Time{}), `{"number":2} 10 s true`)
		time.Sleep(6 * time.Second)
		want(read(t.Context(), time.Time{}), `{"number":4} 10 s false`) // the third has failed meanwhile
		if n := calls.Load(); n != 4 {
			t.Errorf("%d reports were made, want 4", n)
		}
	})
}
