// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package zonalshift

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Intervals of Watcher.
const (
	readInterval  = 30 * time.Second // between two reads
	retryInterval = 10 * time.Second // after a read that failed and may succeed soon
	readTimeout   = 10 * time.Second // of one read
	repeatWarning = time.Hour        // the same warning is logged again after this time
)

// maxFailures is after how many failed reads in a row nothing waits for the first one that succeeds: five to ten minutes.
const maxFailures = 30

// Watcher watches the zonal shifts of the cluster. All methods are safe for concurrent use.
type Watcher struct {
	aws  *awsapi.Account
	turn cloud.Lock // its holder reads

	mu     sync.Mutex
	read   bool               // it was tried at least once
	known  bool               // it has succeeded, has failed maxFailures times, or has failed with an error that only a change of configuration or permissions fixes
	shifts []model.ZonalShift // as last read, by zone; replaced, never changed

	// Of the holder of turn.
	cluster string            // ARN; empty: not read yet
	zones   map[string]string // names by id; empty: the account has no subnet there
	failed  int               // reads in a row, up to maxFailures
	warned  string            // the last warning
	warnAt  time.Time
}

// NewWatcher returns a Watcher without shifts.
func NewWatcher(a *awsapi.Account) *Watcher {
	return &Watcher{aws: a, turn: cloud.NewLock(), zones: map[string]string{}}
}

// isOn reports whether zonal shifts are heeded.
func (w *Watcher) isOn() bool { return w.aws.Config.ZonalShift }

// Shifts returns the shifts that have not expired, by zone.
func (w *Watcher) Shifts() []model.ZonalShift {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.aws.Clock.Now()
	return slices.DeleteFunc(slices.Clone(w.shifts), func(s model.ZonalShift) bool { return isOver(s, now) })
}

// IsKnown reports whether decisions may rely on Shifts: the shifts have been read, or reading them has failed
// maxFailures times, or fails until the configuration or permissions change. Decisions do not wait for the latter two.
func (w *Watcher) IsKnown() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known || !w.isOn()
}

// IsShifted reports whether the cluster is currently shifted away from a zone.
func (w *Watcher) IsShifted(zone string) bool {
	return model.ShiftFrom(w.Shifts(), zone) != nil
}

// isOver reports whether a shift has expired.
func isOver(s model.ZonalShift, now time.Time) bool { return !s.Until.IsZero() && !now.Before(s.Until) }

// EnsureRead reads the shifts if no read was attempted, so that nothing is launched in a shifted zone after the process
// starts. It does not repeat a failed read.
func (w *Watcher) EnsureRead(ctx context.Context) error {
	if !w.isOn() || w.wasRead() {
		return nil
	}
	if err := w.turn.Acquire(ctx); err != nil {
		return err
	}
	defer w.turn.Release()
	if !w.wasRead() {
		w.update(ctx)
	}
	return ctx.Err()
}

// wasRead reports whether reading was tried.
func (w *Watcher) wasRead() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.read
}

// Watch reads the shifts periodically until the context ends, and calls changed after each change, including the expiry
// of a shift.
func (w *Watcher) Watch(ctx context.Context, changed func()) {
	if !w.isOn() {
		return
	}
	var told []model.ZonalShift
	var known bool
	for next := w.aws.Clock.Now(); ctx.Err() == nil; {
		if now := w.aws.Clock.Now(); !now.Before(next) {
			if w.turn.Acquire(ctx) != nil {
				return
			}
			interval := w.update(ctx)
			w.turn.Release()
			next = w.aws.Clock.Now().Add(interval)
		}
		have := w.Shifts()
		if is := w.IsKnown(); !slices.Equal(have, told) || is != known {
			told, known = have, is
			changed()
		}
		wake := next
		for _, s := range have {
			wake = model.EarlierOf(wake, s.Until)
		}
		if w.aws.Clock.Wait(ctx, max(wake.Sub(w.aws.Clock.Now()), time.Millisecond)) != nil {
			return
		}
	}
}

// update reads the shifts once, and returns after how long to read them again. The caller holds turn.
func (w *Watcher) update(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := w.find(ctx)
	interval, known := readInterval, err == nil
	if err == nil {
		w.warned, w.failed = "", 0
	} else if !errors.Is(ctx.Err(), context.Canceled) {
		var advice *adviceError
		known = errors.As(err, &advice)
		if w.failed = min(w.failed+1, maxFailures); !known && w.failed < maxFailures {
			interval = retryInterval
		}
		w.warn(err)
		if !known && w.failed == maxFailures && !w.IsKnown() {
			w.aws.Log.Warn("zonal shifts could not be read: assuming none; instances that EC2 does not list are treated as terminated", "attempts", maxFailures)
			known = true
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.read, w.known = true, w.known || known
	if err == nil {
		w.shifts = found
	}
	return interval
}

// warn logs why shifts can't be read, at once and then each hour.
func (w *Watcher) warn(err error) {
	now := w.aws.Clock.Now()
	if text := err.Error(); text == w.warned && now.Sub(w.warnAt) < repeatWarning {
		return
	}
	w.warned, w.warnAt = err.Error(), now
	w.aws.Log.Warn("zonal shifts can't be read; the last known ones stay in effect until they expire", "error", err)
}

// adviceError is an error that persists until a user corrects something.
type adviceError struct{ text string }

func (e *adviceError) Error() string { return e.text }

// find asks ARC for the shifts that apply to the cluster now.
func (w *Watcher) find(ctx context.Context) ([]model.ZonalShift, error) {
	if w.cluster == "" {
		res, err := w.aws.EKS.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &w.aws.Config.ClusterName})
		if err != nil {
			return nil, w.explain("eks:DescribeCluster", "cluster "+w.aws.Config.ClusterName, err)
		}
		if res.Cluster == nil || awsapi.Deref(res.Cluster.Arn) == "" {
			return nil, fmt.Errorf("EKS returned no ARN for cluster %s", w.aws.Config.ClusterName)
		}
		w.cluster = *res.Cluster.Arn
	}
	res, err := w.aws.ZonalShift.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: &w.cluster})
	if err != nil {
		return nil, w.explain("arc-zonal-shift:GetManagedResource", w.cluster, err)
	}
	now := w.aws.Clock.Now()
	byZone := map[string]model.ZonalShift{}
	add := func(s model.ZonalShift) error {
		var err error
		if isOver(s, now) {
			return nil
		}
		if s.Zone, err = w.zoneName(ctx, s.ZoneID); err != nil || s.Zone == "" {
			return err
		}
		if have, ok := byZone[s.Zone]; !ok || !have.Until.IsZero() && (s.Until.IsZero() || s.Until.After(have.Until)) {
			byZone[s.Zone] = s
		}
		return nil
	}
	for i := range res.ZonalShifts {
		z := &res.ZonalShifts[i]
		if z.AppliedStatus != types.AppliedStatusApplied {
			continue
		}
		if err := add(model.ZonalShift{ZoneID: awsapi.Deref(z.AwayFrom), ID: awsapi.Deref(z.ZonalShiftId), Until: awsapi.Deref(z.ExpiryTime).UTC()}); err != nil {
			return nil, err
		}
	}
	for i := range res.Autoshifts {
		z := &res.Autoshifts[i]
		if z.AppliedStatus != types.AutoshiftAppliedStatusApplied {
			continue
		}
		if err := add(model.ZonalShift{ZoneID: awsapi.Deref(z.AwayFrom)}); err != nil {
			return nil, err
		}
	}
	out := make([]model.ZonalShift, 0, len(byZone))
	for _, s := range byZone {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b model.ZonalShift) int { return strings.Compare(a.Zone, b.Zone) })
	return out, nil
}

// zoneName returns the name of a zone, as the account's subnets there have it; empty: there is none, so nothing can be launched there.
func (w *Watcher) zoneName(ctx context.Context, id string) (string, error) {
	if name := w.zones[id]; name != "" || id == "" {
		return name, nil
	}
	pages := ec2.NewDescribeSubnetsPaginator(w.aws.EC2, &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{awsapi.NewFilter("availability-zone-id", id)}})
	for pages.HasMorePages() && w.zones[id] == "" {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return "", w.explain("ec2:DescribeSubnets", "zone "+id, err)
		}
		for i := range page.Subnets {
			w.zones[id] = awsapi.Deref(page.Subnets[i].AvailabilityZone)
		}
	}
	return w.zones[id], nil
}

// explain adds to the error of a call what to do about it.
func (w *Watcher) explain(action, object string, err error) error {
	switch code := awsapi.ErrorCode(err); {
	case awsapi.IsDenied(code):
		return &adviceError{fmt.Sprintf("%s: %s; allow %s on it in the controller's IAM policy", object, awsapi.ReadableError(err), action)}
	case code == "ResourceNotFoundException" && action == "eks:DescribeCluster":
		return &adviceError{fmt.Sprintf("%s: %s; correct --cluster-name, or unset --enable-zonal-shift if EKS has no such cluster", object, awsapi.ReadableError(err))}
	case code == "ResourceNotFoundException":
		return &adviceError{fmt.Sprintf("%s: %s; enable zonal shift for the cluster: aws eks update-cluster-config --name %s --zonal-shift-config enabled=true",
			object, awsapi.ReadableError(err), w.aws.Config.ClusterName)}
	}
	return fmt.Errorf("%s: %w", object, awsapi.ReadableError(err))
}
