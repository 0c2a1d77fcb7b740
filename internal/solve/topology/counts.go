// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import "slices"

// domainCounts are the pods that one counter counts in each domain. Most counters over hosts see pods on a few of them,
// and there may be as many counters as pods (each excludes pods by a label of its own): so the few are a list, and only a
// counter that has met more domains than fit the list has an array over all of them. The zero value counts no pod.
type domainCounts struct {
	few []domainCount // in the order in which domains were met; unused once there is an array
	all []int32       // by domain, as far as any was met; nil: few holds the counts
}

type domainCount struct{ domain, pods int32 }

// mostInList is how many domains the list holds: to search that many takes about as long as an array's cache miss.
const mostInList = 12

// at returns how many pods are in a domain.
func (x *domainCounts) at(domain int) int32 {
	if x.all != nil {
		if domain < len(x.all) {
			return x.all[domain]
		}
		return 0
	}
	for _, c := range x.few {
		if int(c.domain) == domain {
			return c.pods
		}
	}
	return 0
}

// add counts n pods more, n maybe negative, in a domain.
func (x *domainCounts) add(domain int, n int32) {
	if x.all == nil {
		for i := range x.few {
			if int(x.few[i].domain) == domain {
				x.few[i].pods += n
				return
			}
		}
		if len(x.few) < mostInList {
			x.few = append(x.few, domainCount{int32(domain), n})
			return
		}
		for _, c := range x.few {
			x.addToArray(int(c.domain), c.pods)
		}
	}
	x.addToArray(domain, n)
}

func (x *domainCounts) addToArray(domain int, n int32) {
	if short := domain + 1 - len(x.all); short > 0 {
		x.all = append(x.all, make([]int32, short)...)
	}
	x.all[domain] += n
}

// clone returns counts that do not change with these.
func (x *domainCounts) clone() domainCounts {
	return domainCounts{few: slices.Clone(x.few), all: slices.Clone(x.all)}
}

// resetTo takes the counts back to what they were when initial was cloned from them.
func (x *domainCounts) resetTo(initial *domainCounts) {
	if x.all == nil {
		x.few = append(x.few[:0], initial.few...)
		return
	}
	clear(x.all)
	if initial.all != nil {
		copy(x.all, initial.all)
		return
	}
	for _, c := range initial.few {
		x.all[c.domain] = c.pods
	}
}
