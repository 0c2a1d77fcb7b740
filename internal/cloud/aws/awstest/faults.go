// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// Kinds of Fault.
const (
	// Scarce: Percent of all offerings have no capacity, selected by the seed.
	Scarce = "scarce"
	// LaunchError: a launch in a matching offering fails with Code.
	LaunchError = "launch-error"
	// Overhead: the hypervisor reserves Percent of the memory of matching types.
	Overhead = "memory-overhead"
	// SlowBoot: Percent of the instances in matching offerings take Delay longer to join.
	SlowBoot = "slow-boot"
	// Throttle: Percent of the calls of Action are refused.
	Throttle = "throttle"
	// Bucket: calls of Action take tokens from a bucket of size Burst, which refills at PerSecond tokens per second.
	Bucket = "bucket"
	// Deny: Action is denied.
	Deny = "deny"
	// CallError: Percent of the calls of Action fail with Code.
	CallError = "call-error"
	// LostReply: Percent of the calls of Action have their effect, then the connection is closed without a response.
	LostReply = "lost-reply"
	// Stall: Percent of the calls of Action wait for Delay first.
	Stall = "stall"
	// DescribeLag: instances launched less than Delay ago are not described and cannot be tagged.
	DescribeLag = "describe-lag"
	// SlowGroup: groups ignore changes of their desired capacity, and check every Delay whether the fault has ended.
	SlowGroup = "slow-group"
)

// Fault is an injected fault, which occurs Count times (0: always) and lasts for Duration (0: until cleared). The
// offering faults of package machines (out-of-capacity, never-registers, never-ready) are also supported.
type Fault struct {
	Kind string `json:"kind"`

	// Matching offerings: an empty field matches all.
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`

	Action    string            `json:"action,omitempty"`  // of calls, e.g. CreateFleet; empty: any
	Percent   int               `json:"percent,omitempty"` // 0 means 100
	Burst     int               `json:"burst,omitempty"`
	PerSecond float64           `json:"perSecond,omitempty"`
	Delay     machines.Duration `json:"delay,omitzero"`
	Code      string            `json:"code,omitempty"`

	Count    int               `json:"count,omitempty"`
	Duration machines.Duration `json:"duration,omitzero"`
}

// FaultList is the body of /_aws/faults.
type FaultList struct {
	Faults []Fault `json:"faults"`
}

// Validate returns an error if the fault is invalid.
func (f Fault) Validate() error {
	switch f.Kind {
	case Scarce, Overhead, Throttle, Deny, LostReply:
	case SlowBoot, Stall, DescribeLag, SlowGroup:
		if f.Delay <= 0 {
			return fmt.Errorf("fault %s: delay: missing", f.Kind)
		}
	case LaunchError, CallError:
		if f.Code == "" {
			return fmt.Errorf("fault %s: code: missing; give one of the service's error codes", f.Kind)
		}
	case Bucket:
		if f.Burst < 1 || f.PerSecond <= 0 {
			return fmt.Errorf("fault %s: burst %d, perSecond %v: need at least 1 and more than 0", f.Kind, f.Burst, f.PerSecond)
		}
	case machines.OutOfCapacity, machines.NeverRegisters, machines.NeverReady:
	default:
		return fmt.Errorf("fault: kind %q: not known", f.Kind)
	}
	if f.Percent < 0 || f.Percent > 100 || f.Count < 0 {
		return fmt.Errorf("fault %s: percent %d, count %d: need 0 to 100 and at least 0", f.Kind, f.Percent, f.Count)
	}
	return nil
}

func (f *activeFault) over(now time.Time) bool {
	return !f.until.IsZero() && !now.Before(f.until) || f.Count > 0 && f.left <= 0
}

// addFault begins a fault, which is valid.
func (t *tx) addFault(f Fault) error {
	switch f.Kind {
	case machines.OutOfCapacity, machines.NeverRegisters, machines.NeverReady:
		return t.m.AddFault(machines.Fault{Kind: f.Kind, InstanceType: f.InstanceType, Zone: f.Zone, CapacityType: f.CapacityType, Count: f.Count, Duration: f.Duration}, t.now)
	}
	if f.Percent == 0 {
		f.Percent = 100
	}
	a := &activeFault{Fault: f, left: f.Count, tokens: float64(f.Burst), at: t.now}
	if f.Duration > 0 {
		a.until = t.now.Add(time.Duration(f.Duration))
	}
	t.faults = append(t.faults, a)
	return nil
}

func (t *tx) clearFaults() {
	t.Cloud.faults = nil
	t.m.ClearFaults()
}

func (t *tx) listFaults() []Fault {
	t.Cloud.faults = slices.DeleteFunc(t.faults, func(f *activeFault) bool { return f.over(t.now) })
	out := []Fault{}
	for _, f := range t.faults {
		is := f.Fault
		if f.Count > 0 {
			is.Count = f.left
		}
		out = append(out, is)
	}
	for _, f := range t.m.Faults(t.now) {
		out = append(out, Fault{Kind: f.Kind, InstanceType: f.InstanceType, Zone: f.Zone, CapacityType: f.CapacityType, Count: f.Count, Duration: f.Duration})
	}
	return out
}

// fault is the first one of a kind that hits a call or an offering; empty arguments match only empty fields.
func (t *tx) fault(kind, action, instanceType, zone, capacityType string) *activeFault {
	fits := func(want, have string) bool { return want == "" || want == have }
	for _, f := range t.faults {
		if f.Kind == kind && !f.over(t.now) && fits(f.Action, action) && fits(f.InstanceType, instanceType) && fits(f.Zone, zone) && fits(f.CapacityType, capacityType) {
			return f
		}
	}
	return nil
}

// drawn takes part of a fault that hits a percentage: the n-th question of a fault always has the same answer.
func (t *tx) drawn(f *activeFault, what string) bool {
	f.asked++
	if int(draw(100, f.Kind, strconv.FormatInt(t.settings.Seed, 10), what, strconv.FormatInt(f.asked, 10))) >= f.Percent {
		return false
	}
	f.left--
	return true
}

// scarce reports whether an offering is one of those without capacity.
func (t *tx) scarce(k cloud.OfferingKey) bool {
	f := t.fault(Scarce, "", k.InstanceType, k.Zone, k.CapacityType)
	return f != nil && int(draw(100, Scarce, strconv.FormatInt(t.settings.Seed, 10), k.String())) < f.Percent
}

// slow is how much longer an instance takes to join.
func (t *tx) slow(id, instanceType, zone, capacityType string) time.Duration {
	if f := t.fault(SlowBoot, "", instanceType, zone, capacityType); f != nil && t.drawn(f, id) {
		return time.Duration(f.Delay)
	}
	return 0
}

// lag is how far Describe lags behind.
func (t *tx) lag() time.Duration {
	if f := t.fault(DescribeLag, "", "", "", ""); f != nil {
		return time.Duration(f.Delay)
	}
	return 0
}

// struck is what faults do to a call.
type struck struct {
	stall time.Duration
	lost  bool
}

// strike lets faults hit a call; the error is its answer.
func (c *Cloud) strike(s *wire.Service, action string) (out struck, refused error) {
	broken := c.transact(false, func(t *tx) {
		for _, f := range t.faults {
			if f.over(t.now) || f.Action != "" && f.Action != action {
				continue
			}
			switch f.Kind {
			case Stall:
				if t.drawn(f, action) {
					out.stall = time.Duration(f.Delay)
				}
			case Throttle:
				if t.drawn(f, action) {
					refused = tooMany(s)
				}
			case Bucket:
				f.tokens = min(float64(f.Burst), f.tokens+f.PerSecond*t.now.Sub(f.at).Seconds())
				f.at = t.now
				if f.tokens < 1 {
					refused = tooMany(s)
				} else {
					f.tokens--
				}
			case Deny:
				f.left--
				refused = &wire.Error{Code: s.Denied, Message: "You are not authorized to perform this operation: " + s.Name + ":" + action, Status: http.StatusForbidden}
			case CallError:
				if t.drawn(f, action) {
					refused = &wire.Error{Code: f.Code, Message: f.Code + " by a fault", Status: http.StatusInternalServerError}
				}
			case LostReply:
				if t.drawn(f, action) {
					out.lost = true
				}
			default:
				continue
			}
			if refused != nil {
				return
			}
		}
	})
	if broken != nil {
		return out, &wire.Error{Code: "InternalError", Message: broken.Error(), Status: http.StatusInternalServerError}
	}
	return out, refused
}

func tooMany(s *wire.Service) error {
	status := http.StatusBadRequest
	if s.Protocol == wire.EC2Query {
		status = http.StatusServiceUnavailable
	}
	return &wire.Error{Code: s.Throttled, Message: "Rate exceeded", Status: status}
}
