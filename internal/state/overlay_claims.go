// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// AddProvisionalClaim shows a NodeClaim that is being created, until the API server shows it or the action ends. It does not change
// an existing NodeClaim.
func (o *Overlay) AddProvisionalClaim(c *model.Claim) {
	if o.claims.byName[c.Name] == nil {
		o.provisional[createKey(c.Name)] = c.Name
		o.claims.showClaim(c)
	}
}

// DropProvisionalClaim removes a NodeClaim whose creation failed. It keeps a NodeClaim that the API server has shown in the
// meantime.
func (o *Overlay) DropProvisionalClaim(name string) {
	delete(o.provisional, createKey(name))
	if c := o.claims.byName[name]; c != nil && c.Provisional {
		o.claims.deleteClaim(c)
		o.counts.Supply++
	}
}

// dropUnseenClaim drops the claim whose creation was this action: it was made and gone again before any watch showed
// it.
func (o *Overlay) dropUnseenClaim(action model.ActionKey) {
	if name, ok := o.provisional[action]; ok {
		o.DropProvisionalClaim(name)
	}
}

// AnnotateClaim shows a NodeClaim with an annotation that is not written yet, so that received notices take effect at once. At most
// one annotation per NodeClaim.
func (o *Overlay) AnnotateClaim(name, key, value string) {
	if c := o.claims.byName[name]; c != nil {
		n := annotation{key, value}
		o.annotations[c.UID] = n
		o.claims.showClaim(n.showOn(c))
		o.counts.Supply++
	}
}

// HasAnnotation reports whether a NodeClaim, by UID, is shown with an annotation that has not been read back yet.
func (o *Overlay) HasAnnotation(claim string) bool {
	_, ok := o.annotations[claim]
	return ok
}

// AssumeSlots shows a NodeClaim with slots that are being written.
func (o *Overlay) AssumeSlots(claim string, slots []model.Slot) {
	if c := o.claims.byName[claim]; c != nil {
		have, ok := o.slots[claim]
		if !ok {
			have.read = c.Slots
		}
		have.shown = slots
		o.slots[claim] = have
		o.showSlots(c, slots, have.unsure)
	}
}

// ConfirmSlots records that the assumed slots of a NodeClaim were written.
func (o *Overlay) ConfirmSlots(claim string) {
	have, ok := o.slots[claim]
	if c := o.claims.byName[claim]; ok && c != nil && have.unsure {
		have.unsure, have.refused = false, false
		o.slots[claim] = have
		o.showSlots(c, have.shown, false)
	}
}

// DoubtSlots keeps showing a NodeClaim with slots whose write got no response, and marks them as unconfirmed. If they were treated
// as not written, pods would be assigned other slots, and there would be too many once the watch shows these.
func (o *Overlay) DoubtSlots(claim string) {
	have, ok := o.slots[claim]
	c := o.claims.byName[claim]
	switch {
	case !ok || c == nil:
	case !have.unsure && equalSlots(have.shown, have.read): // the watch has shown them meanwhile
		delete(o.slots, claim)
	default:
		have.unsure, have.refused = true, false
		o.slots[claim] = have
		o.showSlots(c, have.shown, true)
	}
}

// DropSlots shows a NodeClaim with the slots that were last read, because the API server refused the assumed ones. If an earlier
// call got no response and may have written them, a second refusal is required. It follows at least a second later, when the watch
// has shown what is stored.
func (o *Overlay) DropSlots(claim string) {
	have, ok := o.slots[claim]
	switch {
	case !ok:
	case have.unsure && !have.refused:
		have.refused = true
		o.slots[claim] = have
	default:
		delete(o.slots, claim)
		if c := o.claims.byName[claim]; c != nil {
			o.showSlots(c, have.read, false)
		}
	}
}

func (o *Overlay) showSlots(c *model.Claim, slots []model.Slot, unsure bool) {
	d := *c
	d.Slots, d.SlotsUnsure = slots, unsure
	o.claims.showClaim(&d)
}

// coverClaim returns a claim that was read with the overlay laid over it, and forgets what the claim shows by itself.
func (o *Overlay) coverClaim(c *model.Claim) *model.Claim {
	delete(o.provisional, createKey(c.Name))
	c = o.keepReservation(c)
	if assumed, ok := o.slots[c.Name]; ok {
		if !assumed.unsure && !o.inFlight.isKnown(slotsKey(c.UID)) || assumed.unsure && equalSlots(assumed.shown, c.Slots) {
			delete(o.slots, c.Name)
		} else {
			assumed.read = c.Slots
			o.slots[c.Name] = assumed
			d := *c
			d.Slots, d.SlotsUnsure = assumed.shown, assumed.unsure
			c = &d
		}
	}
	if n, ok := o.annotations[c.UID]; ok {
		if c.Annotations[n.key] == n.value {
			delete(o.annotations, c.UID)
		} else {
			c = n.showOn(c)
		}
	}
	return c
}

// keepReservation returns a claim that was read with the reservation that it was shown with before, if somebody has removed the mark from the
// object: whether a node is reserved is never removed by us, only slots are. Without, its pods would be launched for again. Slots that the
// object has are those that were written last.
func (o *Overlay) keepReservation(c *model.Claim) *model.Claim {
	was := o.claims.byName[c.Name]
	if was == nil || was.UID != c.UID && !was.Provisional || !isMarked(was) || isMarked(c) {
		return c
	}
	d := *c
	d.Reserved, d.NoReserve = was.Reserved, was.NoReserve
	if len(c.Slots) > 0 {
		return &d
	}
	d.Slots = was.Slots
	if assumed, ok := o.slots[c.Name]; ok && (assumed.unsure || o.inFlight.isKnown(slotsKey(c.UID))) {
		d.Slots = assumed.read
	}
	return &d
}

// isMarked reports whether a claim has the mark of a reserved node or of one that is not. All claims that we create have one of the two.
func isMarked(c *model.Claim) bool { return c.Reserved || c.NoReserve != "" }

// forgetClaim forgets a claim that is gone.
func (o *Overlay) forgetClaim(c *model.Claim) {
	delete(o.provisional, createKey(c.Name))
	delete(o.slots, c.Name)
	delete(o.annotations, c.UID)
}

// equalSlots reports whether two lists of slots are the same in all that is written of them.
func equalSlots(a, b []model.Slot) bool {
	return slices.EqualFunc(a, b, func(x, y model.Slot) bool { return x.Class == y.Class && x.Owner == y.Owner && x.Count == y.Count })
}
