// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// countingDevices is a state.DeviceSource that counts how often it is asked. Only the loop uses it.
type countingDevices struct{ asked int }

func (c *countingDevices) OfType(string, *model.InstanceType) model.Resources {
	c.asked++
	return nil
}

// With many NodePools, an offering that becomes unavailable and a refresh of all offerings cost each pool's types once.
func TestWorkOfOfferingsOfManyPools(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		const pools = 40
		devices := &countingDevices{}
		b.c.Emit(func(s *state.State) {
			s.Pools.SetDevices(devices)
			for i := range pools - 1 {
				p := *s.Pools.FindPool("p")
				p.Types, p.Name, p.UID = nil, fmt.Sprint("q", i), fmt.Sprint("uid-q", i)
				s.Pools.SetPool(&p)
			}
		})
		b.lead()
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			if want := pools * len(catalogue); devices.asked > want || devices.asked == 0 {
				t.Errorf("%s: the devices of %d types were read, want %d at most", when, devices.asked, want)
			}
			devices.asked = 0
		}
		check("at the start")
		b.c.Emit(func(*state.State) {
			b.c.Provider.Set(cloud.OfferingKey{InstanceType: "cheap", Zone: "a", CapacityType: model.OnDemand})
			b.c.offerings.markUnavailable()
		})
		time.Sleep(time.Second)
		check("after an offering became unavailable")
	})
}
