// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package volume

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagevolume "k8s.io/component-helpers/storage/volume"
)

// choice is where a claim that waits for a pod finds an existing volume, whatever the claims beside it are bound to first.
type choice struct {
	places places
	kept   string // a volume that it could be bound to and that is not counted on, since another claim may be; empty: none
}

const (
	mostRivals  = 200 // how many claims, and how many volumes, of one StorageClass are divided among each other
	mostChoices = 32  // among how many of both each claim chooses from several volumes; of more, each is kept one
	mostParts   = 8   // how many volumes at different places one claim chooses from
)

// choiceOf returns where a claim finds a volume. kube-scheduler binds a claim to the smallest volume that can be used on
// the node where its pod goes, of equals to any, so claims take volumes from each other. The oldest claims come first,
// and a claim counts on a volume only at places where enough are left for it, so that no more pods are expected to find a
// volume than will.
func (ix *Index) choiceOf(claim *corev1.PersistentVolumeClaim) choice {
	class, key := storagevolume.GetPersistentVolumeClaimClass(claim), claim.Namespace+"/"+claim.Name
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if !ix.claimsOf[class][key] { // that of an ephemeral volume is still to be made
		return ix.choices(class, claim)[key]
	}
	all, ok := ix.chosen[class]
	if !ok {
		all = ix.choices(class, nil)
		ix.chosen[class] = all
	}
	return all[key]
}

// choices finds the choice of each claim of a class, and of one more if it is not nil. The caller holds mu.
func (ix *Index) choices(class string, more *corev1.PersistentVolumeClaim) map[string]choice {
	claims := make([]*corev1.PersistentVolumeClaim, 0, len(ix.claimsOf[class])+1)
	for key := range ix.claimsOf[class] {
		claims = append(claims, ix.claims[key])
	}
	if more != nil {
		claims = append(claims, more)
	}
	slices.SortFunc(claims, func(a, b *corev1.PersistentVolumeClaim) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	d := &division{claims: claims}
	for _, name := range slices.Sorted(maps.Keys(ix.volumesOf[class])) {
		d.volumes = append(d.volumes, ix.volumes[name])
	}
	slices.SortStableFunc(d.volumes, compareSize)
	d.divide()
	out := make(map[string]choice, len(claims))
	for i, c := range claims {
		out[c.Namespace+"/"+c.Name] = d.choice(i)
	}
	return out
}

func compareSize(a, b *corev1.PersistentVolume) int {
	x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
	return x.Cmp(y)
}

// set is a set of volumes by place in the list.
type set uint64

// division divides the volumes of a class among its claims.
type division struct {
	claims  []*corev1.PersistentVolumeClaim // the oldest first
	volumes []*corev1.PersistentVolume      // the smallest first
	fits    [][]bool                        // by claim and volume: kube-scheduler would bind them, wherever the volume can be used

	bindable []set    // fits
	notOver  []set    // by volume: those that are no larger
	parts    [][]part // by claim: where it counts on a volume; none: nowhere
	whole    []part   // by volume: all of where it can be used
}

// part is a place in which a claim expects a volume.
type part struct {
	places  places
	holds   set // volumes that can be used everywhere there
	touches set // and somewhere there
}

// divide fills in parts. Too many of either are not divided: each counts on everything.
func (d *division) divide() {
	d.fits, d.parts, d.whole = make([][]bool, len(d.claims)), make([][]part, len(d.claims)), make([]part, len(d.volumes))
	for w, pv := range d.volumes {
		d.whole[w].places = placesOfVolume(pv)
	}
	alone := len(d.claims) <= 1 || len(d.claims) > mostRivals || len(d.volumes) > mostRivals
	for i, c := range d.claims {
		d.fits[i] = make([]bool, len(d.volumes))
		for w, pv := range d.volumes {
			if d.fits[i][w] = canBind(c, pv); d.fits[i][w] && alone {
				d.parts[i] = append(d.parts[i], d.whole[w])
			}
		}
	}
	if alone {
		return
	}
	match := d.match()
	if len(d.claims) > mostChoices || len(d.volumes) > mostChoices {
		for i, w := range match {
			d.parts[i] = []part{d.whole[w]}
		}
		return
	}
	d.compare()
	for i := range d.claims {
		if w, ok := match[i]; ok {
			d.admit(i, w)
		}
	}
	for i := range d.claims {
		d.widen(i)
	}
}

// match keeps a volume for each claim, as far as there are enough: a maximum matching in which the oldest claims come
// first. It returns the volume by claim.
func (d *division) match() map[int]int {
	holder := map[int]int{} // claim by volume
	var seen []bool
	var find func(claim int) bool
	find = func(claim int) bool {
		for _, free := range []bool{true, false} { // those that nobody holds first
			for w, fits := range d.fits[claim] {
				if other, held := holder[w]; !fits || seen[w] || held == free {
					continue
				} else if seen[w] = true; free || find(other) {
					holder[w] = claim
					return true
				}
			}
		}
		return false
	}
	for i := range d.claims {
		seen = make([]bool, len(d.volumes))
		find(i)
	}
	out := make(map[int]int, len(holder))
	for w, claim := range holder {
		out[claim] = w
	}
	return out
}

// compare computes the sets of claims and volumes.
func (d *division) compare() {
	d.bindable, d.notOver = make([]set, len(d.claims)), make([]set, len(d.volumes))
	for i := range d.claims {
		for w, fits := range d.fits[i] {
			if fits {
				d.bindable[i] |= 1 << w
			}
		}
	}
	for w := range d.volumes {
		d.whole[w] = d.partAt(d.whole[w].places)
		for v := range d.volumes {
			if compareSize(d.volumes[v], d.volumes[w]) <= 0 {
				d.notOver[w] |= 1 << v
			}
		}
	}
}

func (d *division) partAt(at places) part {
	out := part{places: at}
	for w := range d.volumes {
		there := d.whole[w].places
		if !at.and(there).nowhere() {
			out.touches |= 1 << w
		}
		if at.within(there) {
			out.holds |= 1 << w
		}
	}
	return out
}

// admit has a claim count on the volume that the matching keeps for it, or on another, or on some of where it can be used:
// the first of these that leaves every claim its volume.
func (d *division) admit(i, kept int) {
	try := []part{d.whole[kept]}
	for w := range d.volumes {
		if d.fits[i][w] && w != kept {
			try = append(try, d.whole[w])
		}
	}
	for w := range d.volumes {
		if both := d.whole[kept].places.and(d.whole[w].places); d.fits[i][w] && w != kept && !both.nowhere() {
			try = append(try, d.partAt(both))
		}
	}
	for _, p := range try {
		if d.parts[i] = []part{p}; d.suffices() {
			return
		}
	}
	d.parts[i] = nil
}

// widen has a claim that counts on a volume count on others too, where every claim still finds its own.
func (d *division) widen(i int) {
	if len(d.parts[i]) == 0 {
		return
	}
	for w := range d.volumes {
		p := d.whole[w]
		if !d.fits[i][w] || len(d.parts[i]) >= mostParts || slices.ContainsFunc(d.parts[i], func(q part) bool { return p.places.within(q.places) }) {
			continue
		}
		before := d.parts[i]
		if d.parts[i] = append(slices.Clone(before), p); !d.suffices() {
			d.parts[i] = before
		}
	}
}

// suffices reports whether each claim finds a volume wherever it counts on one, in whichever order their pods come. A claim
// is bound to one of the smallest volumes at its place, as many of them as others may have taken before it and one more.
func (d *division) suffices() bool {
	mayTake := make([]set, len(d.claims))
	for again := true; again; {
		again = false
		for i := range d.claims {
			for _, p := range d.parts[i] {
				takes, ok := d.takes(i, p, mayTake)
				if !ok {
					return false
				}
				if takes&^mayTake[i] != 0 {
					mayTake[i] |= takes
					again = true
				}
			}
		}
	}
	return true
}

// takes returns what a claim may be bound to at a place, given what the others may. It returns false where they may leave
// it none.
func (d *division) takes(i int, p part, mayTake []set) (set, bool) {
	own := d.bindable[i] & p.holds
	for w := range d.volumes {
		if own&(1<<w) == 0 {
			continue
		}
		first, rivals := own&d.notOver[w], 0
		for j := range d.claims {
			if j != i && mayTake[j]&first != 0 {
				rivals++
			}
		}
		if bits.OnesCount64(uint64(first)) > rivals {
			return d.bindable[i] & p.touches & d.notOver[w], true
		}
	}
	return 0, false
}

// choice returns what has become of a claim.
func (d *division) choice(i int) choice {
	out := choice{places: places{}}
	for _, p := range d.parts[i] {
		out.places = out.places.or(p.places)
	}
	for w, fits := range d.fits[i] {
		if fits && !d.whole[w].places.within(out.places) {
			out.kept = d.volumes[w].Name
			break
		}
	}
	return out
}
