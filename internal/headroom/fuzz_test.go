// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"testing"
	"time"
)

// FuzzCompile: whatever a Headroom's calendar says, it is refused with field and remedy, or its windows open again and
// again, each time later and not before the last opening has closed.
func FuzzCompile(f *testing.F) {
	for _, seed := range []struct {
		schedule, zone string
		minutes        int64
		percent        int
	}{
		{"0 9 * * 1-5", "Europe/Berlin", 60, 0}, {"*/5 * * * *", "", 5, 20}, {"0 0 29 2 *", "UTC", 60, 0}, {"0 0 31 4 *", "", 60, 0}, {"@hourly", "Local", 1, 0},
		{"@every 1s", "America/New_York", 1, 0}, {"TZ=Asia/Tokyo 0 2 * * *", "", 1, 0}, {"30 2 * * 0", "Africa/Casablanca", 1440, 100}, {"0 0 1 1 0", "Australia/Lord_Howe", 999999, 1},
		{"59 23 31 12 ?", "Pacific/Apia", 1, 0}, {"0-59/1,* 0-23 1-31 JAN-DEC SUN-SAT", "", 1, 0}, {"0 0 * * 7", "", 1, 0}, {"* * * * * *", "", 1, 0},
	} {
		f.Add(seed.schedule, seed.zone, seed.minutes, 3, seed.percent, false, int64(1_760_000_000))
	}
	f.Fuzz(func(t *testing.T, schedule, zone string, minutes int64, replicas, percent int, last bool, at int64) {
		s := Spec{Namespace: "a", Name: "b", Calendar: []WindowSpec{{Name: "w", Schedule: schedule, TimeZone: zone, Duration: time.Duration(minutes) * time.Minute,
			Replicas: replicas, Percent: percent, AsLastTime: last}}, Limits: Limits{Replicas: -1, MicroPerHour: -1}}
		h, problems := Compile(s, time.LoadLocation)
		if len(problems) > 0 {
			for _, p := range problems {
				if p.Field == "" || p.Why == "" || p.Remedy == "" {
					t.Errorf("problem %+v", p)
				}
			}
			return
		}
		now := time.Unix(at%(1<<31), 0)
		for range 20 {
			if now.Year() > 2090 {
				return // 2100 has no 29 February, and cron looks five years ahead
			}
			next := h.Windows[0].Next(now)
			if !next.After(now) {
				t.Fatalf("%q in %q: after %v it opens at %v", schedule, zone, now, next)
			}
			o := h.Windows[0].Current(next)
			if !o.Closes.After(next) {
				t.Fatalf("%q in %q: the opening at %v is over at %v", schedule, zone, o, next)
			}
			now = next
		}
	})
}
